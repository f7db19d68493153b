//! The AWS SDK's own client, over plain HTTP and without a TLS stack.

use std::time::Duration;

use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region, StalledStreamProtectionConfig, retry::RetryConfig};

/// The timeout of connecting, and of a body that makes no progress. The client's defaults, 3 and 5 seconds, are too
/// short for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client for one endpoint, with path-style addresses (`http://127.0.0.1:PORT/BUCKET/KEY`) and, where the
/// store is on this machine, no retries: a request that fails once is a finding, not noise.
pub fn s3client(endpoint: &str, key: &str, secret: &str) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(key, secret, None, None, "tests"))
        .force_path_style(true)
        .retry_config(retries())
        .timeout_config(TimeoutConfig::builder().connect_timeout(TIMEOUT).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::enabled().grace_period(TIMEOUT).build())
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// A server whose log is elsewhere may say SlowDown or start again when the log is
/// slow, which the default of the SDKs outlasts.
fn retries() -> RetryConfig {
    if std::env::var_os(tests::shared_store::METADATA).is_some() {
        RetryConfig::standard().with_max_attempts(8)
    } else {
        RetryConfig::disabled()
    }
}

/// A test of the client against a listener that answers one request, without a server.
#[tokio::test]
async fn the_client_speaks_plain_http_in_path_style() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    let answer = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("one connection");
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let byte = socket.read_u8().await.expect("a request");
            head.push(byte);
        }
        let reply = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\netag: \"e\"\r\n\r\nhi";
        socket.write_all(reply).await.expect("the reply");
        String::from_utf8(head).expect("a head of ASCII")
    });
    let client = s3client(&endpoint, "AKIDEXAMPLE", "secret");
    let object = client.get_object().bucket("b").key("k").send().await.expect("an answer");
    assert_eq!(object.body.collect().await.expect("a body").into_bytes().as_ref(), b"hi");
    let head = answer.await.expect("the listener ends");
    assert!(head.starts_with("GET /b/k"), "{head}");
    assert!(head.contains("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{head}");
}
