//! COSI v1alpha1, the version of the released sidecar.

mod identity;
mod provisioner;

use proto::cosi::v1alpha1::identity_server::IdentityServer;
use proto::cosi::v1alpha1::provisioner_server::ProvisionerServer;
use tonic::service::Routes;

use crate::Driver;

/// The Identity and Provisioner services.
pub(crate) fn routes(driver: &Driver) -> Routes {
    let identity = IdentityServer::new(identity::Service { name: driver.config.driver_name.clone() });
    Routes::new(identity).add_service(ProvisionerServer::new(provisioner::Service { driver: driver.clone() }))
}

#[cfg(test)]
mod tests;
