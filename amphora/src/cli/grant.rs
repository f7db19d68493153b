//! `amphora grant`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row};
use crate::failure::Failure;

/// What to do with grants.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Grant an account access to a bucket, or change its grant
    Add {
        /// The bucket
        bucket: String,
        /// The account
        #[arg(long, value_name = "NAME")]
        account: String,
        /// What it may do: ro reads, wo writes, rw both; owner also changes the settings and deletes the bucket
        #[arg(long, value_name = "MODE", value_parser = ["ro", "rw", "wo", "owner"])]
        mode: String,
    },
    /// List grants
    #[command(visible_alias = "ls")]
    List {
        /// Only those of this bucket
        bucket: Option<String>,
        /// Only those of this account
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
    /// Revoke a grant
    #[command(visible_alias = "rm")]
    Remove {
        /// The bucket
        bucket: String,
        /// The account
        #[arg(long, value_name = "NAME")]
        account: String,
    },
}

/// The printed form of a grant.
#[derive(Serialize)]
struct GrantRow {
    bucket: String,
    account: String,
    mode: String,
}

impl From<admin::Grant> for GrantRow {
    fn from(grant: admin::Grant) -> Self {
        Self { bucket: grant.bucket, account: grant.account, mode: grant.mode }
    }
}

impl Row for GrantRow {
    const HEADERS: &'static [&'static str] = &["BUCKET", "ACCOUNT", "MODE"];

    fn cells(&self) -> Vec<String> {
        vec![self.bucket.clone(), self.account.clone(), self.mode.clone()]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Add { bucket, account, mode } => {
                let grant = answer(client.add_grant(admin::AddGrantRequest { bucket, account, mode }).await)?;
                printer.one(&GrantRow::from(grant))
            }
            Self::List { bucket, account } => {
                let all = answer(client.list_grants(admin::ListGrantsRequest { bucket, account }).await)?;
                printer.list(&all.grants.into_iter().map(GrantRow::from).collect::<Vec<_>>())
            }
            Self::Remove { bucket, account } => {
                let done = format!("account {account} has no grant for bucket {bucket} any more");
                answer(client.remove_grant(admin::RemoveGrantRequest { bucket, account }).await)?;
                printer.done(&done)
            }
        }
    }
}
