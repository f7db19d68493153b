//! `amphora bucket`

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, limit_text, size_text, some, time_text};
use crate::config::Size;
use crate::failure::Failure;

/// What to do with buckets.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a bucket
    Create(Create),
    /// List buckets
    #[command(visible_alias = "ls")]
    List,
    /// Show one bucket
    Show {
        /// Name
        name: String,
    },
    /// List the keys that mounts cannot show, each with the reason
    Hidden {
        /// The bucket or snapshot
        name: String,
        /// Only the keys with this prefix
        #[arg(long, default_value = "", hide_default_value = true)]
        prefix: String,
    },
    /// Change the quota or versioning of a bucket
    Set(Set),
    /// Delete a bucket
    #[command(visible_alias = "rm")]
    Delete {
        /// Name
        name: String,
        /// Delete the bucket with all objects in it
        #[arg(long)]
        force: bool,
    },
}

/// The bucket to make.
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the bucket: 3 to 63 lower-case letters, digits, dots and hyphens
    name: String,
    /// Quota in bytes, or with a suffix: 10Gi, 500M
    #[arg(long, value_name = "SIZE")]
    quota: Option<Size>,
    /// Enable versioning
    #[arg(long)]
    versioning: bool,
    /// Create the bucket as a clone of this snapshot, with its content, versioning and object lock, but without quota,
    /// grants and other settings
    #[arg(long, value_name = "SNAPSHOT")]
    from_snapshot: Option<String>,
    /// The account that owns it [default: the administrator]
    #[arg(long, value_name = "ACCOUNT")]
    owner: Option<String>,
}

/// What to change.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["quota", "no_quota", "versioning"]).required(true).multiple(true)))]
pub struct Set {
    /// The bucket
    name: String,
    /// Quota in bytes, or with a suffix: 10Gi, 500M
    #[arg(long, value_name = "SIZE", conflicts_with = "no_quota")]
    quota: Option<Size>,
    /// Remove the quota
    #[arg(long)]
    no_quota: bool,
    /// Enable or suspend versioning
    #[arg(long, value_name = "STATE")]
    versioning: Option<Versioning>,
}

/// What versioning can be set to.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Versioning {
    Enabled,
    Suspended,
}

/// The printed form of a bucket.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BucketRow {
    name: String,
    quota_bytes: Option<u64>,
    used_bytes: u64,
    inode_count: u64,
    object_count: Option<u64>,
    hidden_key_count: Option<u64>,
    versioning: String,
    owner: Option<String>,
    created_at: String,
    from_snapshot: Option<String>,
    access_log: Option<String>,
    website: Option<String>,
}

impl From<admin::Bucket> for BucketRow {
    fn from(bucket: admin::Bucket) -> Self {
        Self {
            name: bucket.name,
            quota_bytes: bucket.quota_bytes,
            used_bytes: bucket.used_bytes,
            inode_count: bucket.inode_count,
            object_count: bucket.object_count,
            hidden_key_count: bucket.hidden_key_count,
            versioning: bucket.versioning,
            owner: some(bucket.owner),
            created_at: time_text(bucket.created_unix_ms),
            from_snapshot: some(bucket.from_snapshot),
            access_log: some(bucket.access_log),
            website: some(bucket.website),
        }
    }
}

impl Row for BucketRow {
    const HEADERS: &'static [&'static str] = &[
        "NAME",
        "QUOTA",
        "USED",
        "INODES",
        "OBJECTS",
        "HIDDEN",
        "VERSIONING",
        "OWNER",
        "CREATED",
        "CLONE OF",
        "ACCESS LOG",
        "WEBSITE",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            limit_text(self.quota_bytes),
            size_text(self.used_bytes),
            self.inode_count.to_string(),
            self.object_count.map(|count| count.to_string()).unwrap_or_default(),
            self.hidden_key_count.map(|count| count.to_string()).unwrap_or_default(),
            self.versioning.clone(),
            self.owner.clone().unwrap_or_default(),
            self.created_at.clone(),
            self.from_snapshot.clone().unwrap_or_default(),
            self.access_log.clone().unwrap_or_default(),
            self.website.clone().unwrap_or_default(),
        ]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Create(create) => {
                let made = answer(client.create_bucket(create.request()).await)?;
                printer.one(&BucketRow::from(made))
            }
            Self::List => {
                let all = answer(client.list_buckets(admin::ListBucketsRequest {}).await)?;
                printer.list(&all.buckets.into_iter().map(BucketRow::from).collect::<Vec<_>>())
            }
            Self::Show { name } => {
                let bucket = answer(client.get_bucket(admin::GetBucketRequest { name }).await)?;
                printer.one(&BucketRow::from(bucket))
            }
            Self::Hidden { name, prefix } => super::hidden::run(client, printer, name, prefix).await,
            Self::Set(set) => {
                let bucket = answer(client.set_bucket(set.request()).await)?;
                printer.one(&BucketRow::from(bucket))
            }
            Self::Delete { name, force } => {
                answer(client.delete_bucket(admin::DeleteBucketRequest { name: name.clone(), force }).await)?;
                printer.done(&format!("deleted bucket {name}"))
            }
        }
    }
}

impl Create {
    fn request(self) -> admin::CreateBucketRequest {
        admin::CreateBucketRequest {
            name: self.name,
            quota_bytes: self.quota.map(|size| size.bytes),
            versioning: if self.versioning { "enabled".into() } else { String::new() },
            from_snapshot: self.from_snapshot.unwrap_or_default(),
            owner_account: self.owner.unwrap_or_default(),
        }
    }
}

impl Set {
    fn request(self) -> admin::SetBucketRequest {
        let versioning = match self.versioning {
            Some(Versioning::Enabled) => "enabled",
            Some(Versioning::Suspended) => "suspended",
            None => "",
        };
        admin::SetBucketRequest {
            name: self.name,
            quota_bytes: self.quota.map(|size| size.bytes),
            clear_quota: self.no_quota,
            versioning: versioning.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::tests::json_fields;

    #[test]
    fn json_field_names_are_stable() {
        let expected = [
            "name",
            "quotaBytes",
            "usedBytes",
            "inodeCount",
            "objectCount",
            "hiddenKeyCount",
            "versioning",
            "owner",
            "createdAt",
            "fromSnapshot",
            "accessLog",
            "website",
        ];
        let mut fields = json_fields(&BucketRow::from(admin::Bucket::default()));
        let mut expected = expected.map(str::to_owned).to_vec();
        fields.sort();
        expected.sort();
        assert_eq!(fields, expected);
    }
}
