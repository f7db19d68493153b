//! The Provisioner service: buckets and access. COSI v1alpha2, Provisioner Service RPC.

use std::collections::{BTreeMap, HashMap};

use objstore::name::BucketName;
use objstore::store::{Mode, NewKey};
use proto::cosi::v1alpha2::driver_grant_bucket_access_request::AccessedBucket;
use proto::cosi::v1alpha2::driver_grant_bucket_access_response::BucketInfo;
use proto::cosi::v1alpha2::provisioner_server::Provisioner;
use proto::cosi::v1alpha2::{
    AuthenticationType, CredentialInfo, DriverCreateBucketRequest, DriverCreateBucketResponse,
    DriverDeleteBucketRequest, DriverDeleteBucketResponse, DriverGetExistingBucketRequest,
    DriverGetExistingBucketResponse, DriverGrantBucketAccessRequest, DriverGrantBucketAccessResponse,
    DriverRevokeBucketAccessRequest, DriverRevokeBucketAccessResponse, ObjectProtocol, ObjectProtocolAndBucketInfo,
    S3AddressingStyle, S3BucketInfo, S3CredentialInfo, access_mode, authentication_type, object_protocol,
    s3_addressing_style,
};
use tonic::{Request, Response, Status};

use crate::parameters::{BucketParameters, service_account};
use crate::rpc::answer;
use crate::service_account::ServiceAccountFault;
use crate::{Config, Driver, status};

/// The most buckets of one access.
const BUCKETS_MAX: usize = 1000;

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

    async fn driver_get_existing_bucket(
        &self,
        request: Request<DriverGetExistingBucketRequest>,
    ) -> Result<Response<DriverGetExistingBucketResponse>, Status> {
        let driver = self.driver.clone();
        answer("DriverGetExistingBucket", request, |request| existing(driver, request)).await
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
            required("account_id", &request.account_id)?;
            check_protocol(request.protocol)?;
            is_by_role(request.authentication_type)?;
            if request.buckets.is_empty() {
                return Err(Status::invalid_argument("buckets is missing: name the buckets of the access"));
            }
            // A bucket that could never exist has no access to revoke.
            let buckets = request.buckets.iter().filter_map(|bucket| bucket.bucket_id.parse().ok()).collect();
            driver.revoke_several(&request.account_id, buckets).await?;
            Ok(DriverRevokeBucketAccessResponse {})
        })
        .await
    }
}

async fn create(driver: Driver, request: DriverCreateBucketRequest) -> Result<DriverCreateBucketResponse, Status> {
    required("name", &request.name)?;
    require_s3(&request.protocols)?;
    let parameters = BucketParameters::parse(&request.parameters).map_err(|error| status::of(&error))?;
    driver.create_bucket(&request.name, parameters).await?;
    let protocols = Some(bucket_info(&driver.config, &request.name));
    Ok(DriverCreateBucketResponse { bucket_id: request.name, protocols })
}

async fn existing(
    driver: Driver,
    request: DriverGetExistingBucketRequest,
) -> Result<DriverGetExistingBucketResponse, Status> {
    required("existing_bucket_id", &request.existing_bucket_id)?;
    require_s3(&request.protocols)?;
    let parameters = BucketParameters::parse_given(&request.parameters).map_err(|error| status::of(&error))?;
    let bucket = driver.existing_bucket(&request.existing_bucket_id, parameters).await?;
    let protocols = Some(bucket_info(&driver.config, bucket.as_str()));
    Ok(DriverGetExistingBucketResponse { bucket_id: bucket.to_string(), protocols })
}

async fn grant(
    driver: Driver,
    request: DriverGrantBucketAccessRequest,
) -> Result<DriverGrantBucketAccessResponse, Status> {
    required("account_name", &request.account_name)?;
    check_protocol(request.protocol)?;
    let (by_role, modes) = (is_by_role(request.authentication_type)?, modes(&request.buckets)?);
    let buckets = modes.keys().map(|name| BucketInfo {
        bucket_id: name.to_string(),
        bucket_info: Some(bucket_info(&driver.config, name.as_str())),
    });
    let buckets = buckets.collect();
    if by_role {
        required("service_account_name", &request.service_account_name)?;
        let named = Some(request.service_account_name);
        let (caller, others) = service_account(request.parameters, named).map_err(|error| status::of(&error))?;
        check_parameters(&others)?;
        let granted = driver.grant_service_account(&request.account_name, modes, caller).await;
        let account_id = granted.map_err(ServiceAccountFault::status)?;
        // Required, and empty: no key exists.
        let credentials = Some(CredentialInfo { s3: Some(S3CredentialInfo::default()), azure: None, gcs: None });
        return Ok(DriverGrantBucketAccessResponse { account_id, buckets, credentials });
    }
    check_parameters(&request.parameters)?;
    let key = driver.grant_several(&request.account_name, modes).await?;
    let credentials = Some(credentials(&key));
    Ok(DriverGrantBucketAccessResponse { account_id: key.account, buckets, credentials })
}

/// Refuses parameters that a BucketAccessClass of v1alpha2 does not have.
fn check_parameters(given: &HashMap<String, String>) -> Result<(), Status> {
    match given.keys().next() {
        None => Ok(()),
        Some(parameter) => Err(Status::invalid_argument(format!(
            "parameter \"{parameter}\": a BucketAccessClass of v1alpha2 has no parameters but serviceAccountNamespace and \
             audience, with the authentication type ServiceAccount; the BucketAccess has a mode for each bucket"
        ))),
    }
}

/// The buckets asked for, with their modes.
fn modes(asked: &[AccessedBucket]) -> Result<BTreeMap<BucketName, Mode>, Status> {
    if !(1..=BUCKETS_MAX).contains(&asked.len()) {
        let why = format!("buckets has {} entries; give 1 to {BUCKETS_MAX}", asked.len());
        return Err(Status::invalid_argument(why));
    }
    let mut modes = BTreeMap::new();
    for bucket in asked {
        required("bucket_id", &bucket.bucket_id)?;
        let name: BucketName =
            bucket.bucket_id.parse().map_err(|_| crate::access::no_such_bucket(&bucket.bucket_id))?;
        let mode = mode(bucket)?;
        if modes.insert(name, mode).is_some_and(|other| other != mode) {
            let why = format!("bucket \"{}\" is named twice with different access modes", bucket.bucket_id);
            return Err(Status::invalid_argument(why));
        }
    }
    Ok(modes)
}

fn mode(bucket: &AccessedBucket) -> Result<Mode, Status> {
    match bucket.access_mode.map(|mode| mode.mode()) {
        Some(access_mode::Mode::ReadWrite) => Ok(Mode::ReadWrite),
        Some(access_mode::Mode::ReadOnly) => Ok(Mode::Read),
        Some(access_mode::Mode::WriteOnly) => Ok(Mode::Write),
        Some(access_mode::Mode::Unknown) | None => Err(Status::invalid_argument(format!(
            "access_mode of bucket \"{}\" is missing or unknown; use READ_WRITE, READ_ONLY or WRITE_ONLY",
            bucket.bucket_id
        ))),
    }
}

fn required(field: &str, value: &str) -> Result<(), Status> {
    match value.is_empty() {
        true => Err(Status::invalid_argument(format!("{field} is missing"))),
        false => Ok(()),
    }
}

fn require_s3(protocols: &[ObjectProtocol]) -> Result<(), Status> {
    match protocols.iter().find(|protocol| protocol.r#type() != object_protocol::Type::S3) {
        None => Ok(()),
        Some(other) => Err(Status::invalid_argument(format!(
            "protocol {} is not supported; this driver has S3 only",
            other.r#type().as_str_name()
        ))),
    }
}

/// Refuses a request without the protocol, or with another than S3.
fn check_protocol(given: Option<ObjectProtocol>) -> Result<(), Status> {
    let given = given.ok_or_else(|| Status::invalid_argument("protocol is missing; use S3"))?;
    require_s3(&[given])
}

/// Whether an access is by a role of a ServiceAccount, not by a key.
fn is_by_role(authentication: Option<AuthenticationType>) -> Result<bool, Status> {
    match authentication.map(|given| given.r#type()) {
        Some(authentication_type::Type::Key) => Ok(false),
        Some(authentication_type::Type::ServiceAccount) => Ok(true),
        Some(authentication_type::Type::Unknown) | None => Err(Status::invalid_argument(
            "authentication_type is missing or unknown; use Key or ServiceAccount in the BucketAccessClass",
        )),
    }
}

/// Where a bucket is. Path-style addresses need no entry in a name server, so every client reaches them.
fn bucket_info(config: &Config, bucket: &str) -> ObjectProtocolAndBucketInfo {
    let s3 = S3BucketInfo {
        bucket_id: bucket.to_owned(),
        endpoint: config.s3_endpoint_url.clone(),
        region: config.region.clone(),
        addressing_style: Some(S3AddressingStyle { style: s3_addressing_style::Style::Path.into() }),
    };
    ObjectProtocolAndBucketInfo { s3: Some(s3), azure: None, gcs: None }
}

fn credentials(key: &NewKey) -> CredentialInfo {
    let s3 = S3CredentialInfo { access_key_id: key.id.clone(), access_secret_key: key.secret.reveal().to_owned() };
    CredentialInfo { s3: Some(s3), azure: None, gcs: None }
}
