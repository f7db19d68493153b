//! A workload's S3 client.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata as _, SdkError};

use crate::Failure;

/// A client with one key, for one bucket.
pub struct S3 {
    client: Client,
    bucket: String,
}

impl S3 {
    pub fn new(endpoint: &str, key: &str, secret: &str, bucket: &str) -> Self {
        let config = aws_sdk_s3::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .endpoint_url(endpoint)
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new(key, secret, None, None, "demo"))
            .force_path_style(true)
            .retry_config(RetryConfig::disabled())
            .build();
        Self { client: Client::from_conf(config), bucket: bucket.into() }
    }

    pub async fn put(&self, key: &str, text: &str) -> Result<(), Failure> {
        let body = text.as_bytes().to_vec().into();
        self.client.put_object().bucket(&self.bucket).key(key).body(body).send().await?;
        Ok(())
    }

    pub async fn get(&self, key: &str) -> Result<String, Failure> {
        let object = self.client.get_object().bucket(&self.bucket).key(key).send().await?;
        Ok(String::from_utf8(object.body.collect().await?.to_vec())?)
    }

    /// The error code with which the server refuses to read an object.
    pub async fn refusal(&self, key: &str) -> Result<String, Failure> {
        match self.client.get_object().bucket(&self.bucket).key(key).send().await {
            Ok(_) => Err("the read was not refused".into()),
            Err(SdkError::ServiceError(refused)) => Ok(refused.err().code().unwrap_or_default().to_owned()),
            Err(error) => Err(error.into()),
        }
    }
}
