//! Account operations of the admin service.

use objstore::store::{Account, Outcome};
use objstore::{Noun, Store};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::bucket::taken;
use super::{Service, refused};

pub(super) async fn create(service: &Service, request: &api::CreateAccountRequest) -> Result<api::Account, Status> {
    let made = service.store.create_account(&request.name, request.may_create_buckets).await;
    match made.map_err(|error| refused(&error))? {
        (account, Outcome::Made) => Ok(shown(account)),
        (account, Outcome::Found) => Err(taken(Noun::Account, &account.name)),
    }
}

pub(super) async fn list(service: &Service) -> Result<api::ListAccountsResponse, Status> {
    let all = service.blocking(Store::accounts).await?;
    Ok(api::ListAccountsResponse { accounts: all.into_iter().map(shown).collect() })
}

pub(super) async fn delete(service: &Service, name: &str) -> Result<api::DeleteAccountResponse, Status> {
    if name == service.root_account {
        return Err(Status::failed_precondition(format!(
            "account \"{name}\" is the administrator's and cannot be deleted"
        )));
    }
    service.store.delete_account(name).await.map_err(|error| refused(&error))?;
    Ok(api::DeleteAccountResponse {})
}

fn shown(account: Account) -> api::Account {
    api::Account {
        id: format!("{:016x}", account.id),
        may_create_buckets: account.may_create_buckets || account.root,
        created_unix_ms: account.created.millis(),
        name: account.name,
    }
}
