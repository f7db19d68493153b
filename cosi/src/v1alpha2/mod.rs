//! COSI v1alpha2: several buckets for one access, a mode for each bucket, and existing buckets.

mod identity;
mod provisioner;

use proto::cosi::v1alpha2::identity_server::IdentityServer;
use proto::cosi::v1alpha2::provisioner_server::ProvisionerServer;
use tonic::service::Routes;

use crate::Driver;

/// `routes` with the Identity and Provisioner services of this version.
pub(crate) fn routes(routes: Routes, driver: &Driver) -> Routes {
    let identity = IdentityServer::new(identity::Service { name: driver.config.driver_name.clone() });
    routes.add_service(identity).add_service(ProvisionerServer::new(provisioner::Service { driver: driver.clone() }))
}

#[cfg(test)]
mod tests;
