//! The Provisioner service: buckets and access. COSI v1alpha1, Provisioner Service RPC.

use std::collections::{BTreeMap, HashMap};

use objstore::store::NewKey;
use proto::cosi::v1alpha1::provisioner_server::Provisioner;
use proto::cosi::v1alpha1::{
    AuthenticationType, CredentialDetails, DriverCreateBucketRequest, DriverCreateBucketResponse,
    DriverDeleteBucketRequest, DriverDeleteBucketResponse, DriverGrantBucketAccessRequest,
    DriverGrantBucketAccessResponse, DriverRevokeBucketAccessRequest, DriverRevokeBucketAccessResponse, Protocol, S3,
    S3SignatureVersion, protocol,
};
use tonic::{Request, Response, Status};

use crate::access::{grant_status, no_such_bucket};
use crate::parameters::{BucketParameters, access_mode, service_account};
use crate::rpc::answer;
use crate::service_account::role_arn;
use crate::{Config, Driver, status};

/// The service; it unpacks each request, calls the driver and packs its answer.
pub(super) struct Service {
    pub(super) driver: Driver,
}

#[tonic::async_trait]
impl Provisioner for Service {
    async fn driver_create_bucket(
        &self,
        request: Request<DriverCreateBucketRequest>,
    ) -> Result<Response<DriverCreateBucketResponse>, Status> {
        let driver = self.driver.clone();
        answer("DriverCreateBucket", request, |request| create(driver, request)).await
    }

    async fn driver_delete_bucket(
        &self,
        request: Request<DriverDeleteBucketRequest>,
    ) -> Result<Response<DriverDeleteBucketResponse>, Status> {
        let driver = self.driver.clone();
        answer("DriverDeleteBucket", request, |request| async move {
            required("bucket_id", &request.bucket_id)?;
            driver.delete_bucket(&request.bucket_id).await?;
            Ok(DriverDeleteBucketResponse {})
        })
        .await
    }

    async fn driver_grant_bucket_access(
        &self,
        request: Request<DriverGrantBucketAccessRequest>,
    ) -> Result<Response<DriverGrantBucketAccessResponse>, Status> {
        let driver = self.driver.clone();
        answer("DriverGrantBucketAccess", request, |request| grant(driver, request)).await
    }

    async fn driver_revoke_bucket_access(
        &self,
        request: Request<DriverRevokeBucketAccessRequest>,
    ) -> Result<Response<DriverRevokeBucketAccessResponse>, Status> {
        let driver = self.driver.clone();
        answer("DriverRevokeBucketAccess", request, |request| async move {
            required("bucket_id", &request.bucket_id)?;
            required("account_id", &request.account_id)?;
            driver.revoke(&request.bucket_id, &request.account_id).await?;
            Ok(DriverRevokeBucketAccessResponse {})
        })
        .await
    }
}

async fn create(driver: Driver, request: DriverCreateBucketRequest) -> Result<DriverCreateBucketResponse, Status> {
    required("name", &request.name)?;
    let parameters = BucketParameters::parse(&request.parameters).map_err(|error| status::of(&error))?;
    let name = driver.create_bucket(&request.name, parameters).await?;
    driver.rate.wait(&name).await;
    let s3 = S3 { region: driver.config.region.clone(), signature_version: S3SignatureVersion::S3v4.into() };
    let bucket_info = Protocol { r#type: Some(protocol::Type::S3(s3)) };
    Ok(DriverCreateBucketResponse { bucket_id: request.name, bucket_info: Some(bucket_info) })
}

async fn grant(
    driver: Driver,
    request: DriverGrantBucketAccessRequest,
) -> Result<DriverGrantBucketAccessResponse, Status> {
    required("bucket_id", &request.bucket_id)?;
    required("name", &request.name)?;
    if authentication(request.authentication_type)? == AuthenticationType::Iam {
        return grant_role(driver, request).await;
    }
    let mode = access_mode(&request.parameters).map_err(|error| status::of(&error))?;
    let key = driver.grant(&request.bucket_id, &request.name, mode).await?;
    let credentials = HashMap::from([("s3".to_owned(), credentials(&key, &driver.config))]);
    Ok(DriverGrantBucketAccessResponse { account_id: key.account, credentials })
}

/// Grants access by a role. The sidecar takes exactly one protocol, so the answer has one, without a key.
async fn grant_role(
    driver: Driver,
    request: DriverGrantBucketAccessRequest,
) -> Result<DriverGrantBucketAccessResponse, Status> {
    let bucket = request.bucket_id.parse().map_err(|_| no_such_bucket(&request.bucket_id))?;
    let (caller, others) = service_account(request.parameters, None).map_err(|error| status::of(&error))?;
    let mode = access_mode(&others).map_err(|error| status::of(&error))?;
    let granted = driver.grant_service_account(&request.name, BTreeMap::from([(bucket, mode)]), caller).await;
    let account_id = granted.map_err(|fault| fault.status_by(grant_status))?;
    let arn = role_arn(&account_id);
    let secrets =
        [("roleArn", arn.as_str()), ("endpoint", &driver.config.s3_endpoint_url), ("region", &driver.config.region)];
    let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let credentials = HashMap::from([("s3".to_owned(), CredentialDetails { secrets })]);
    Ok(DriverGrantBucketAccessResponse { account_id, credentials })
}

fn required(field: &str, value: &str) -> Result<(), Status> {
    match value.is_empty() {
        true => Err(Status::invalid_argument(format!("{field} is missing"))),
        false => Ok(()),
    }
}

fn authentication(given: i32) -> Result<AuthenticationType, Status> {
    match AuthenticationType::try_from(given) {
        Ok(known @ (AuthenticationType::Key | AuthenticationType::Iam)) => Ok(known),
        _ => Err(Status::invalid_argument(
            "authentication_type is missing or unknown; use KEY or IAM in the BucketAccessClass",
        )),
    }
}

/// The credentials under the names that the sidecar reads. COSI v1alpha1, DriverGrantBucketAccess.
fn credentials(key: &NewKey, config: &Config) -> CredentialDetails {
    let secrets = [
        ("accessKeyID", key.id.as_str()),
        ("accessSecretKey", key.secret.reveal()),
        ("endpoint", &config.s3_endpoint_url),
        ("region", &config.region),
    ];
    CredentialDetails { secrets: secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).into() }
}
