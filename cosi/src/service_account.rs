//! Access without a key: a role that one ServiceAccount of Kubernetes may take (COSI v1alpha1, IAM; v1alpha2,
//! SERVICE_ACCOUNT).
//!
//! - The workload exchanges the token of its ServiceAccount for short-lived keys at STS, which listens where S3 does. No
//!   Secret holds a key.
//! - The role is called [`ROLE`] and belongs to the account of the access. It goes with that account.
//! - A name is a name, never a pattern: characters that Kubernetes does not allow in names are refused.

use std::collections::BTreeMap;

use objstore::Error;
use objstore::name::BucketName;
use objstore::store::{Creator, DriverAccess, Mode, TrustedIdentity};
use tonic::Status;

use crate::access::account_name;
use crate::parameters::ServiceAccount;
use crate::{Driver, status};

/// The name of the role of each access without a key.
pub(crate) const ROLE: &str = "workload";

impl ServiceAccount {
    /// The identity that its tokens have.
    fn identity(self, issuer: Option<&String>) -> Result<TrustedIdentity, Status> {
        let Some(issuer) = issuer.cloned() else {
            return Err(Status::failed_precondition(
                "access by ServiceAccount needs the issuer of its tokens: start the server with --oidc-issuer and \
                 --oidc-audience",
            ));
        };
        check("the name of the ServiceAccount", &self.name)?;
        check("serviceAccountNamespace", &self.namespace)?;
        let subject = format!("system:serviceaccount:{}:{}", self.namespace, self.name);
        Ok(TrustedIdentity { issuer, subject, audience: self.audience })
    }
}

/// Refuses what Kubernetes does not allow as a name (RFC 1123 subdomain).
fn check(what: &str, name: &str) -> Result<(), Status> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if (1..=253).contains(&name.len()) && name.bytes().all(plain) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(Status::invalid_argument(format!(
        "{what} is {shown:?}: use 1 to 253 lower-case letters, digits, \"-\" and \".\""
    )))
}

impl Driver {
    /// Creates the access `name` to exactly these buckets for a ServiceAccount, or finds it, and returns its account.
    pub(crate) async fn grant_service_account(
        &self,
        name: &str,
        grants: BTreeMap<BucketName, Mode>,
        caller: ServiceAccount,
    ) -> Result<String, ServiceAccountFault> {
        let account = account_name(name).map_err(ServiceAccountFault::Refused)?;
        let trusted = caller.identity(self.config.issuer.as_ref()).map_err(ServiceAccountFault::Refused)?;
        let asked = DriverAccess { account, creator: Creator::Cosi, grants };
        self.store.make_driver_role(asked, ROLE, trusted).await.map_err(ServiceAccountFault::Store)
    }
}

/// Why an access for a ServiceAccount was not made. The versions of COSI have different codes for some errors.
pub(crate) enum ServiceAccountFault {
    Refused(Status),
    Store(Error),
}

impl ServiceAccountFault {
    /// The status by the rules of v1alpha2.
    pub(crate) fn status(self) -> Status {
        self.status_by(status::of)
    }

    /// The status, with errors of the store told by `of`.
    pub(crate) fn status_by(self, of: impl FnOnce(&Error) -> Status) -> Status {
        match self {
            Self::Refused(status) => status,
            Self::Store(error) => of(&error),
        }
    }
}

/// The ARN of the role of an access.
pub(crate) fn role_arn(account: &str) -> String {
    format!("arn:aws:iam::{account}:role/{ROLE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_one_and_never_a_pattern() {
        let issuer = "https://kubernetes.default.svc".to_owned();
        let identity = |namespace: &str, name: &str| {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            ServiceAccount { namespace, name, audience: None }.identity(Some(&issuer)).map(|trusted| trusted.subject)
        };
        assert_eq!(identity("shop", "web").unwrap(), "system:serviceaccount:shop:web");
        for (namespace, name) in
            [("*", "web"), ("shop", "*"), ("shop", "w*b"), ("shop:web", "x"), ("", "web"), ("shop", "")]
        {
            assert!(identity(namespace, name).is_err(), "{namespace} {name}");
        }
        let web = ServiceAccount { namespace: "shop".into(), name: "web".into(), audience: None };
        assert!(web.identity(None).unwrap_err().message().contains("--oidc-issuer"));
    }
}
