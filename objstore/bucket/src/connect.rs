//! Making the client: credentials, region, endpoint, TLS, retries and timeouts.

use std::sync::atomic::AtomicU64;

use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{Builder, Credentials};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::stats::Counters;
use crate::{Addressing, Inner, Keys, Options, Patience};

/// The region of a store that was given by its endpoint; most such stores ignore it.
const ENDPOINT_REGION: &str = "us-east-1";

/// Makes the client of a bucket.
pub(crate) fn open(options: Options) -> Result<Inner> {
    check_endpoint(options.endpoint.as_deref())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("bucket").enable_all().build();
    let runtime = runtime.map_err(|error| Error::Refused {
        operation: "starting threads for",
        name: options.location.to_string(),
        why: error.to_string(),
    })?;
    let config = load(&runtime, &options)?;
    let given = config.endpoint_url().is_some();
    let path = match options.addressing {
        Addressing::Automatic => given,
        Addressing::Path => true,
        Addressing::Host => false,
    };
    let mut builder = Builder::from(&config).force_path_style(path);
    if let Some(Keys { id, secret }) = options.keys {
        builder = builder.credentials_provider(Credentials::new(id, secret, None, None, "given"));
    }
    let client = Client::from_conf(builder.build());
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| Error::Refused {
        operation: "taking random bytes for",
        name: options.location.to_string(),
        why: error.to_string(),
    })?;
    Ok(Inner {
        client,
        runtime: Some(runtime),
        location: options.location,
        patience: options.patience,
        slots: Semaphore::new(options.requests.max(1)),
        counters: Counters::default(),
        client_id: u64::from_le_bytes(random),
        tokens: AtomicU64::default(),
    })
}

/// Reads the AWS configuration: environment, profiles, web identity, container and instance roles.
fn load(runtime: &Runtime, options: &Options) -> Result<SdkConfig> {
    let https = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(https)
        .retry_config(retries(options.patience))
        .timeout_config(timeouts(options.patience));
    if let Some(endpoint) = &options.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    match (&options.region, &options.endpoint) {
        (Some(region), _) => loader = loader.region(Region::new(region.clone())),
        // The metadata service of a machine at AWS knows nothing of another store's region, and elsewhere nothing answers.
        (None, Some(_)) => {
            let set = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
            loader = loader.region(set.or_else(ProfileFileRegionProvider::new()).or_else(Region::new(ENDPOINT_REGION)));
        }
        (None, None) => {}
    }
    // On its own thread, since the caller may be a task of another runtime.
    let config = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(loader.load())).join());
    let name = options.location.to_string();
    let config = config.map_err(|_| Error::Refused {
        operation: "reading the AWS configuration for",
        name: name.clone(),
        why: "it cannot be read".into(),
    })?;
    match (config.region(), config.endpoint_url()) {
        (Some(_), _) => Ok(config),
        (None, Some(_)) => Ok(config.into_builder().region(Region::new(ENDPOINT_REGION)).build()),
        (None, None) => Err(Error::Refused {
            operation: "reaching",
            name,
            why: "no region is known: set AWS_REGION, a region in the AWS profile, or --content-region".into(),
        }),
    }
}

fn check_endpoint(endpoint: Option<&str>) -> Result<()> {
    let Some(endpoint) = endpoint else { return Ok(()) };
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    let fine = host.is_some_and(|host| {
        let host = host.trim_end_matches('/');
        !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']) && host.is_ascii()
    });
    if fine {
        return Ok(());
    }
    let why = "it has the form http://HOST:PORT or https://HOST:PORT, without a path, name or password".into();
    // Not shown if it may contain a password.
    let value = if endpoint.contains('@') { "(hidden)".into() } else { endpoint.to_owned() };
    Err(Error::Invalid { what: "endpoint of an S3 store", value, why })
}

fn retries(patience: Patience) -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(patience.attempts.max(1))
        .with_max_backoff(std::time::Duration::from_secs(5))
}

fn timeouts(patience: Patience) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(patience.connect)
        .operation_attempt_timeout(patience.attempt)
        .operation_timeout(patience.call)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_checked_and_passwords_are_not_shown() {
        for endpoint in ["http://127.0.0.1:9000", "https://s3.example.org", "https://s3.example.org/"] {
            check_endpoint(Some(endpoint)).unwrap();
        }
        for endpoint in ["", "127.0.0.1:9000", "ftp://host", "http://", "http://host/path", "http://me:secret@host"] {
            let error = check_endpoint(Some(endpoint)).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
