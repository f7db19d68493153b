//! `amphora account`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, time_text};
use crate::failure::Failure;

/// What to do with accounts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create an account, without keys and grants
    Create {
        /// Name
        name: String,
        /// Allow the account to create buckets through S3
        #[arg(long)]
        may_create_buckets: bool,
    },
    /// List accounts
    #[command(visible_alias = "ls")]
    List,
    /// Delete an account with its keys and grants
    #[command(visible_alias = "rm")]
    Delete {
        /// Name
        name: String,
    },
}

/// The printed form of an account.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountRow {
    name: String,
    id: String,
    may_create_buckets: bool,
    created_at: String,
}

impl From<admin::Account> for AccountRow {
    fn from(account: admin::Account) -> Self {
        Self {
            name: account.name,
            id: account.id,
            may_create_buckets: account.may_create_buckets,
            created_at: time_text(account.created_unix_ms),
        }
    }
}

impl Row for AccountRow {
    const HEADERS: &'static [&'static str] = &["NAME", "ID", "MAY CREATE BUCKETS", "CREATED"];

    fn cells(&self) -> Vec<String> {
        let may = if self.may_create_buckets { "yes" } else { "no" };
        vec![self.name.clone(), self.id.clone(), may.to_owned(), self.created_at.clone()]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Create { name, may_create_buckets } => {
                let request = admin::CreateAccountRequest { name, may_create_buckets };
                printer.one(&AccountRow::from(answer(client.create_account(request).await)?))
            }
            Self::List => {
                let all = answer(client.list_accounts(admin::ListAccountsRequest {}).await)?;
                printer.list(&all.accounts.into_iter().map(AccountRow::from).collect::<Vec<_>>())
            }
            Self::Delete { name } => {
                answer(client.delete_account(admin::DeleteAccountRequest { name: name.clone() }).await)?;
                printer.done(&format!("deleted account {name}"))
            }
        }
    }
}
