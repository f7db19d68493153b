//! `amphora role`

use clap::Subcommand;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer};
use super::output::{Printer, Row, time_text};
use crate::failure::Failure;

/// What to do with roles.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a role, which gives those who take it the rights of an account for a while
    Create {
        /// Name, unique in its account
        name: String,
        /// The account whose rights it gives
        #[arg(long, value_name = "NAME")]
        account: String,
        /// Trust identities of this issuer, exactly as its tokens name it (iss). Needs --subject
        #[arg(long, value_name = "URL", requires = "subject")]
        issuer: Option<String>,
        /// Trust this subject of the issuer (sub), such as system:serviceaccount:NAMESPACE:NAME; * stands for any
        /// characters. Repeat it for several
        #[arg(long, value_name = "PATTERN", requires = "issuer")]
        subject: Vec<String>,
        /// Trust tokens for this audience only (aud) [default: any that the server accepts from the issuer]
        #[arg(long, value_name = "NAME", requires = "issuer")]
        audience: Option<String>,
        /// Trust the keys of this account (AssumeRole). Repeat it for several
        #[arg(long, value_name = "NAME")]
        trust_account: Vec<String>,
    },
    /// List roles
    #[command(visible_alias = "ls")]
    List {
        /// Only those of this account
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
    },
    /// Delete a role; its sessions end
    #[command(visible_alias = "rm")]
    Delete {
        /// Name
        name: String,
        /// The account whose rights it gives
        #[arg(long, value_name = "NAME")]
        account: String,
    },
}

/// The printed form of a trusted identity.
#[derive(Serialize)]
struct Identity {
    issuer: String,
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    audience: String,
}

/// The printed form of a role.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RoleRow {
    account: String,
    name: String,
    arn: String,
    identities: Vec<Identity>,
    accounts: Vec<String>,
    created_at: String,
}

impl From<admin::Role> for RoleRow {
    fn from(role: admin::Role) -> Self {
        let identities = role.identities.into_iter().map(|trusted| Identity {
            issuer: trusted.issuer,
            subject: trusted.subject,
            audience: trusted.audience,
        });
        Self {
            account: role.account,
            name: role.name,
            arn: role.arn,
            identities: identities.collect(),
            accounts: role.accounts,
            created_at: time_text(role.created_unix_ms),
        }
    }
}

impl Row for RoleRow {
    const HEADERS: &'static [&'static str] = &["ARN", "TRUSTS", "CREATED"];

    fn cells(&self) -> Vec<String> {
        let identities = self.identities.iter().map(|trusted| format!("{} of {}", trusted.subject, trusted.issuer));
        let accounts = self.accounts.iter().map(|account| format!("account {account}"));
        let trusts = identities.chain(accounts).collect::<Vec<_>>().join(", ");
        vec![self.arn.clone(), trusts, self.created_at.clone()]
    }
}

impl Command {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        match self {
            Self::Create { name, account, issuer, subject, audience, trust_account } => {
                let issuer = issuer.unwrap_or_default();
                let identities = subject.into_iter().map(|subject| admin::TrustedIdentity {
                    issuer: issuer.clone(),
                    subject,
                    audience: audience.clone().unwrap_or_default(),
                });
                let identities = identities.collect();
                let request = admin::CreateRoleRequest { account, name, identities, accounts: trust_account };
                printer.one(&RoleRow::from(answer(client.create_role(request).await)?))
            }
            Self::List { account } => {
                let all = answer(client.list_roles(admin::ListRolesRequest { account }).await)?;
                printer.list(&all.roles.into_iter().map(RoleRow::from).collect::<Vec<_>>())
            }
            Self::Delete { name, account } => {
                let done = format!("deleted role {name} of account {account}; its sessions have ended");
                answer(client.delete_role(admin::DeleteRoleRequest { account, name }).await)?;
                printer.done(&done)
            }
        }
    }
}
