//! Access key operations of the admin service.

use objstore::store::{KeyInfo, NewKey};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::{Service, refused};

pub(super) async fn create(service: &Service, account: &str) -> Result<api::Key, Status> {
    let key = service.store.create_key(account).await.map_err(|error| refused(&error))?;
    with_time(service, key).await
}

pub(super) async fn rotate(service: &Service, account: &str) -> Result<api::Key, Status> {
    let key = service.store.rotate_key(account).await.map_err(|error| refused(&error))?;
    with_time(service, key).await
}

pub(super) async fn list(service: &Service, account: Option<String>) -> Result<api::ListKeysResponse, Status> {
    let keys = service.blocking(move |store| {
        if let Some(account) = &account {
            store.account(account)?;
        }
        store.keys(account.as_deref())
    });
    let shown = |key: KeyInfo| api::Key {
        access_key_id: key.id,
        secret_access_key: String::new(),
        account: key.account,
        created_unix_ms: key.created.millis(),
    };
    Ok(api::ListKeysResponse { keys: keys.await?.into_iter().map(shown).collect() })
}

pub(super) async fn delete(service: &Service, id: &str) -> Result<api::DeleteKeyResponse, Status> {
    service.store.delete_key(id).await.map_err(|error| refused(&error))?;
    Ok(api::DeleteKeyResponse {})
}

async fn with_time(service: &Service, key: NewKey) -> Result<api::Key, Status> {
    let (id, account) = (key.id.clone(), key.account.clone());
    let keys = service.blocking(move |store| store.keys(Some(&account))).await?;
    let created = keys.iter().find(|known| known.id == id).map_or(0, |known| known.created.millis());
    Ok(api::Key {
        access_key_id: key.id,
        secret_access_key: key.secret.reveal().to_owned(),
        account: key.account,
        created_unix_ms: created,
    })
}
