//! `amphora key`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, some, time_text};
use crate::failure::Failure;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a key; its secret is shown only now
    Create {
        /// The account of the key
        #[arg(long, value_name = "NAME")]
        account: String,
    },
    /// List keys, without secrets
    #[command(visible_alias = "ls")]
    List {
        /// Only the keys of this account
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
    /// Delete a key; the next request that uses it is refused
    #[command(visible_alias = "rm")]
    Delete {
        /// The access key id
        id: String,
    },
    /// Create a new key and delete the oldest of the account, so that the newest two are valid
    Rotate {
        /// The account of the keys
        #[arg(long, value_name = "NAME")]
        account: String,
    },
}

/// The printed form of a key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyRow {
    access_key_id: String,
    account: String,
    created_at: String,
}

/// The printed form of a new key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct New {
    access_key_id: String,
    secret_access_key: Option<String>,
    account: String,
    created_at: String,
}

impl From<admin::Key> for KeyRow {
    fn from(key: admin::Key) -> Self {
        Self { access_key_id: key.access_key_id, account: key.account, created_at: time_text(key.created_unix_ms) }
    }
}

impl From<admin::Key> for New {
    fn from(key: admin::Key) -> Self {
        Self {
            access_key_id: key.access_key_id,
            secret_access_key: some(key.secret_access_key),
            account: key.account,
            created_at: time_text(key.created_unix_ms),
        }
    }
}

impl Row for KeyRow {
    const HEADERS: &'static [&'static str] = &["ACCESS KEY ID", "ACCOUNT", "CREATED"];

    fn cells(&self) -> Vec<String> {
        vec![self.access_key_id.clone(), self.account.clone(), self.created_at.clone()]
    }
}

impl Row for New {
    const HEADERS: &'static [&'static str] = &["ACCESS KEY ID", "SECRET ACCESS KEY", "ACCOUNT", "CREATED"];

    fn cells(&self) -> Vec<String> {
        let secret = self.secret_access_key.clone().unwrap_or_default();
        vec![self.access_key_id.clone(), secret, self.account.clone(), self.created_at.clone()]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Create { account } => {
                let key = answer(client.create_key(admin::CreateKeyRequest { account }).await)?;
                show(key, client, printer).await
            }
            Self::List { account } => {
                let all = answer(client.list_keys(admin::ListKeysRequest { account }).await)?;
                printer.list(&all.keys.into_iter().map(KeyRow::from).collect::<Vec<_>>())
            }
            Self::Delete { id } => {
                answer(client.delete_key(admin::DeleteKeyRequest { access_key_id: id.clone() }).await)?;
                printer.done(&format!("deleted key {id}"))
            }
            Self::Rotate { account } => {
                let key = answer(client.rotate_keys(admin::RotateKeysRequest { account }).await)?;
                show(key, client, printer).await
            }
        }
    }
}

/// Prints a new key, and for people also how to use it.
async fn show(key: admin::Key, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
    let new = New::from(key);
    printer.one(&new)?;
    if let (true, Some(secret)) = (printer.is_for_people(), &new.secret_access_key) {
        // The key exists and was printed, so a missing address of the server is not an error.
        if let Ok(status) = answer(client.status(admin::StatusRequest {}).await) {
            printer.raw(crate::hints::new_key(&status.s3_url, &new.access_key_id, secret).as_bytes())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::tests::json_fields;

    #[test]
    fn json_field_names_are_stable_and_lists_have_no_secrets() {
        let key = admin::Key { secret_access_key: "secret".into(), ..Default::default() };
        let fields = json_fields(&New::from(key.clone()));
        assert!(
            ["accessKeyId", "secretAccessKey", "account", "createdAt"].iter().all(|f| fields.contains(&(*f).into()))
        );
        assert!(!json_fields(&KeyRow::from(key)).contains(&"secretAccessKey".to_owned()));
    }
}
