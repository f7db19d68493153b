//! COSI v1alpha1 over its socket, in the order in which the upstream sidecar calls.

mod access;
mod bucket;

use std::collections::HashMap;

use proto::cosi::v1alpha1::identity_client::IdentityClient;
use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;
use proto::cosi::v1alpha1::*;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::support::*;

/// A server, and a client of its COSI socket.
struct Driver {
    server: Server,
    channel: Channel,
}

impl Driver {
    async fn start() -> Self {
        Self::of(Server::start()).await
    }

    async fn of(server: Server) -> Self {
        let channel = grpc::channel(&server.ready().socket("cosi")).await;
        Self { server, channel }
    }

    fn provisioner(&self) -> ProvisionerClient<Channel> {
        ProvisionerClient::new(self.channel.clone())
    }

    async fn create(
        &self,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Response<DriverCreateBucketResponse>, Status> {
        let request = DriverCreateBucketRequest { name: name.into(), parameters: map(parameters) };
        self.provisioner().driver_create_bucket(request).await
    }

    async fn grant(
        &self,
        bucket: &str,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Response<DriverGrantBucketAccessResponse>, Status> {
        let request = DriverGrantBucketAccessRequest {
            bucket_id: bucket.into(),
            name: name.into(),
            authentication_type: AuthenticationType::Key.into(),
            parameters: map(parameters),
        };
        self.provisioner().driver_grant_bucket_access(request).await
    }

    /// Grants access; returns the account's id and its key.
    async fn granted(&self, bucket: &str, name: &str, parameters: &[(&str, &str)]) -> (String, Credentials) {
        let answer = self.grant(bucket, name, parameters).await.expect("granted").into_inner();
        let key = key_of(&answer);
        (answer.account_id, key)
    }

    async fn revoke(&self, bucket: &str, account: &str) -> Result<Response<DriverRevokeBucketAccessResponse>, Status> {
        let request = DriverRevokeBucketAccessRequest {
            bucket_id: bucket.into(),
            account_id: account.into(),
            ..Default::default()
        };
        self.provisioner().driver_revoke_bucket_access(request).await
    }

    async fn delete(&self, bucket: &str) -> Result<Response<DriverDeleteBucketResponse>, Status> {
        let request = DriverDeleteBucketRequest { bucket_id: bucket.into(), ..Default::default() };
        self.provisioner().driver_delete_bucket(request).await
    }
}

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The key in the answer, by the names that the sidecar reads.
fn key_of(answer: &DriverGrantBucketAccessResponse) -> Credentials {
    let secrets = &answer.credentials["s3"].secrets;
    Credentials { access_key_id: secrets["accessKeyID"].clone(), secret_access_key: secrets["accessSecretKey"].clone() }
}

#[tokio::test]
async fn the_driver_says_its_name() {
    for (args, expected) in [(vec![], "cosi.amphora.dev"), (vec!["--cosi-driver-name=a.example"], "a.example")] {
        let driver = Driver::of(Options::default().args(args).start()).await;
        let info = IdentityClient::new(driver.channel.clone()).driver_get_info(DriverGetInfoRequest {}).await;
        assert_eq!(info.expect("answered").into_inner().name, expected);
    }
}

/// The whole life of a claim, with each call repeated, as a sidecar does after it lost its state.
#[tokio::test]
async fn every_call_can_be_repeated() {
    use crate::support::access::{Rights, rights};

    let driver = Driver::start().await;
    for _ in 0..2 {
        driver.create("claim-1", &[]).await.expect("made");
    }
    let (account, key) = driver.granted("claim-1", "ba-1", &[]).await;
    assert_eq!(driver.granted("claim-1", "ba-1", &[]).await.0, account);
    assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::Both);
    for _ in 0..2 {
        driver.revoke("claim-1", &account).await.expect("revoked");
        assert_eq!(rights(&driver.server, &key, "claim-1").await, Rights::UnknownKey);
    }
    for _ in 0..2 {
        driver.delete("claim-1").await.expect("deleted");
    }
    assert_eq!(cli::json(&driver.server, &["bucket", "list"]), serde_json::json!([]));
}
