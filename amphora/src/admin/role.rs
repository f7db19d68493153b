//! Role operations of the admin service.

use objstore::Noun;
use objstore::store::{Creator, NewRole, Outcome, Role, TrustedIdentity};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::bucket::taken;
use super::{Service, refused};

pub(super) async fn create(service: &Service, request: api::CreateRoleRequest) -> Result<api::Role, Status> {
    let identities = request.identities.into_iter().map(|trusted| TrustedIdentity {
        issuer: trusted.issuer,
        subject: trusted.subject,
        audience: Some(trusted.audience).filter(|audience| !audience.is_empty()),
    });
    let asked = NewRole {
        account: request.account,
        name: request.name,
        creator: Creator::Administrator,
        identities: identities.collect(),
        accounts: request.accounts,
    };
    match service.store.create_role(asked).await.map_err(|error| refused(&error))? {
        (role, Outcome::Made) => Ok(shown(role)),
        (role, Outcome::Found) => Err(taken(Noun::Role, &role.name)),
    }
}

pub(super) async fn list(service: &Service, account: Option<String>) -> Result<api::ListRolesResponse, Status> {
    let roles = service.blocking(move |store| store.roles(account.as_deref())).await?;
    Ok(api::ListRolesResponse { roles: roles.into_iter().map(shown).collect() })
}

pub(super) async fn delete(
    service: &Service,
    request: &api::DeleteRoleRequest,
) -> Result<api::DeleteRoleResponse, Status> {
    service.store.delete_role(&request.account, &request.name).await.map_err(|error| refused(&error))?;
    Ok(api::DeleteRoleResponse {})
}

fn shown(role: Role) -> api::Role {
    let arn = role.arn();
    let identities = role.identities.into_iter().map(|TrustedIdentity { issuer, subject, audience }| {
        api::TrustedIdentity { issuer, subject, audience: audience.unwrap_or_default() }
    });
    api::Role {
        identities: identities.collect(),
        account: role.account,
        name: role.name,
        arn,
        accounts: role.accounts,
        created_unix_ms: role.created.millis(),
    }
}
