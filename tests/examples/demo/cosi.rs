//! The gRPC calls that the COSI sidecar makes.

use std::collections::HashMap;
use std::path::Path;

use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;
use proto::cosi::v1alpha1::{
    AuthenticationType, DriverCreateBucketRequest, DriverDeleteBucketRequest, DriverGrantBucketAccessRequest,
    DriverRevokeBucketAccessRequest,
};
use tonic::transport::{Channel, Endpoint};

use crate::Failure;

/// A connection to the COSI socket.
pub struct Cosi(ProvisionerClient<Channel>);

/// The result of DriverGrantBucketAccess.
pub struct Access {
    /// The id of the account.
    pub account: String,
    /// `accessKeyID`, `accessSecretKey`, `endpoint` and `region`.
    credentials: HashMap<String, String>,
}

impl Cosi {
    pub async fn connect(socket: &Path) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
        Ok(Self(ProvisionerClient::new(endpoint.connect().await?)))
    }

    pub async fn create_bucket(&mut self, name: &str) -> Result<String, Failure> {
        let request = DriverCreateBucketRequest { name: name.into(), parameters: HashMap::new() };
        Ok(self.0.driver_create_bucket(request).await?.into_inner().bucket_id)
    }

    pub async fn grant(&mut self, bucket: &str, name: &str) -> Result<Access, Failure> {
        let request = DriverGrantBucketAccessRequest {
            bucket_id: bucket.into(),
            name: name.into(),
            authentication_type: AuthenticationType::Key.into(),
            parameters: HashMap::from([("mode".into(), "rw".into())]),
        };
        let mut granted = self.0.driver_grant_bucket_access(request).await?.into_inner();
        let credentials = granted.credentials.remove("s3").ok_or("the grant has no S3 credentials")?;
        Ok(Access { account: granted.account_id, credentials: credentials.secrets })
    }

    pub async fn revoke(&mut self, bucket: &str, access: &Access) -> Result<(), Failure> {
        let (bucket_id, account_id) = (bucket.into(), access.account.clone());
        let request = DriverRevokeBucketAccessRequest { bucket_id, account_id, ..Default::default() };
        self.0.driver_revoke_bucket_access(request).await?;
        Ok(())
    }

    pub async fn delete_bucket(&mut self, bucket: &str) -> Result<(), Failure> {
        let request = DriverDeleteBucketRequest { bucket_id: bucket.into(), ..Default::default() };
        self.0.driver_delete_bucket(request).await?;
        Ok(())
    }
}

impl Access {
    pub fn key(&self) -> &str {
        self.value("accessKeyID")
    }

    pub fn secret(&self) -> &str {
        self.value("accessSecretKey")
    }

    pub fn endpoint(&self) -> &str {
        self.value("endpoint")
    }

    fn value(&self, name: &str) -> &str {
        self.credentials.get(name).map_or("", String::as_str)
    }

    /// The Kubernetes Secret that the sidecar writes for a pod: one entry, a JSON document.
    pub fn kubernetes_secret(&self, bucket: &str) -> HashMap<String, String> {
        let document = serde_json::json!({
            "metadata": { "name": "bc-demo", "creationTimestamp": null },
            "spec": {
                "bucketName": bucket,
                "authenticationType": "Key",
                "secretS3": {
                    "endpoint": self.endpoint(),
                    "region": self.value("region"),
                    "accessKeyID": self.key(),
                    "accessSecretKey": self.secret(),
                },
                "secretAzure": null,
                "protocols": ["s3"],
            },
        });
        HashMap::from([("BucketInfo".into(), document.to_string())])
    }
}
