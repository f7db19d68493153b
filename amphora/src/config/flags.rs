//! The flags of `serve`, each with its parser.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::log::{self, LogFormat};
use super::metadata::MetadataUrl;
use super::{Interval, Period, Size, SocketPath};

/// The smallest memory limit. The largest share of one request is 37 MiB; under a smaller limit it gets all of it.
const MEMORY_MIN: u64 = 16 << 20;

/// The flags of `serve`. A field `s3_listen` is the flag `--s3-listen`, `AMPHORA_S3_LISTEN` in the environment and
/// the key `s3-listen` of the file.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Each flag is also a variable of the environment (--s3-listen: AMPHORA_S3_LISTEN) and a key of \
                        the TOML file of --config (s3-listen = \"127.0.0.1:9000\"). A flag overrides the environment, \
                        the environment overrides the file.\n\nAMPHORA_ROOT_ACCESS_KEY_ID and \
                        AMPHORA_ROOT_SECRET_ACCESS_KEY set the root key at the first start."
)]
pub struct Flags {
    /// Data folder of the store; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "./amphora-data")]
    pub data_dir: PathBuf,
    /// Master key file, which encrypts the secrets in the store; created at the first start [default: master.key in the
    /// data folder; with --metadata-url the object keys/master.key below --content-url]
    #[arg(long, value_name = "FILE")]
    pub master_key_file: Option<PathBuf>,
    /// PostgreSQL or S3 store that keeps the metadata, as postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE or s3://BUCKET/PREFIX:
    /// --data-dir is then a cache, and a second server with the same URL is a standby. The password may stand in
    /// AMPHORA_METADATA_URL, the config file, PGPASSWORD or a password file instead; credentials of S3 are found as for
    /// --content-url, which is needed too [default: the data folder keeps the metadata]
    #[arg(long, value_name = "URL", hide_default_value = true)]
    pub metadata_url: Option<MetadataUrl>,
    /// Address of the S3 store of --metadata-url [default: that of the content]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub metadata_endpoint: Option<String>,
    /// Accept a PostgreSQL without a synchronous standby: acknowledged changes are lost with its disk
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub single_postgres: bool,
    /// Bucket and prefix of an S3 store that keeps the content: --data-dir then keeps a cache of it. Credentials are found as AWS
    /// tools find them (AWS_ACCESS_KEY_ID, AWS_PROFILE, web identity, roles) [default: the data folder keeps the content]
    #[arg(long, value_name = "s3://BUCKET/PREFIX", value_parser = super::content::location)]
    pub content_url: Option<objstore::bucket::Location>,
    /// Address of that S3 store [default: AWS, or what AWS_ENDPOINT_URL or the AWS profile says]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub content_endpoint: Option<String>,
    /// Region of that bucket [default: AWS_REGION or the AWS profile; us-east-1 with an endpoint]
    #[arg(long, value_name = "REGION", value_parser = region)]
    pub content_region: Option<String>,
    /// Whether requests name that bucket in the path, not in the host name [default: true with an endpoint]
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set)]
    pub content_path_style: Option<bool>,
    /// How much content that was read from that bucket stays in the data folder
    #[arg(long, value_name = "SIZE", default_value = "10Gi", value_parser = memory)]
    pub content_cache: Size,
    /// Address of the S3 endpoint; port 0 picks a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9000", value_parser = address)]
    pub s3_listen: SocketAddr,
    /// Address of /metrics, /healthz and /readyz
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9001", value_parser = address)]
    pub http_listen: SocketAddr,
    /// Socket of the CSI services (also: CSI_ENDPOINT) [default: DATA_DIR/run/csi.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub csi_endpoint: Option<SocketPath>,
    /// Separate socket of the CSI node service [default: --csi-endpoint serves both]
    #[arg(long, value_name = "unix://PATH")]
    pub csi_node_endpoint: Option<SocketPath>,
    /// Serve the CSI node service, which mounts volumes on this machine; false where `amphora node` does that on each machine
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub csi_node: bool,
    /// Socket of the COSI services (also: COSI_ENDPOINT) [default: DATA_DIR/run/cosi.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub cosi_endpoint: Option<SocketPath>,
    /// Socket of the fd holder, which keeps mounts while no server runs [default: DATA_DIR/run/holder.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub holder_endpoint: Option<SocketPath>,
    /// Start a holder where none answers; false where the holder is a service or a pod of its own
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub start_holder: bool,
    /// Run without the fd holder: mounts end with the server
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_holder: bool,
    /// Unmount the mounts of `amphora mount` when the server stops, instead of keeping them for the next server
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub unmount_at_exit: bool,
    /// Certificate chain (PEM) for S3 over TLS; reloaded when the file changes. Needs --tls-key
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM, not encrypted) of --tls-cert
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Address of the website endpoint, which serves buckets with a website configuration to browsers [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub website_listen: Option<SocketAddr>,
    /// Domain of websites, as in BUCKET.NAME; comma-separated or repeated for several. Needs --website-listen
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub website_domain: Vec<s3::Domain>,
    /// Address of the volume listener, which serves mounts on other machines (`amphora mount --server`, `amphora node`)
    /// [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub volume_listen: Option<SocketAddr>,
    /// Certificate chain (PEM) of --volume-listen; reloaded when the file changes. Needs --volume-key [default: issued by
    /// the store's own authority, which is the same on each server of the store; nodes trust volume-ca.pem of the data folder with
    /// --ca]
    #[arg(long, value_name = "FILE")]
    pub volume_cert: Option<PathBuf>,
    /// Private key (PEM, not encrypted) of --volume-cert
    #[arg(long, value_name = "FILE")]
    pub volume_key: Option<PathBuf>,
    /// Certificates (PEM) of the authority for nodes: each connection to --volume-listen has to show a certificate of it, and a
    /// ticket opens a volume only with one that names its node; reloaded when the file changes [default: no certificate is
    /// asked for]
    #[arg(long, value_name = "FILE")]
    pub volume_client_ca: Option<PathBuf>,
    /// How long a mount on another machine may be out of contact before it is fenced; S3 requests and other mounts wait
    /// for it that long
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = lease)]
    pub volume_lease: Period,
    /// Domain for virtual-hosted addressing, as in BUCKET.NAME; comma-separated or repeated for several
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub s3_domain: Vec<s3::Domain>,
    /// Maximum number of S3 connections
    #[arg(long, value_name = "COUNT", default_value = "4096", value_parser = count)]
    pub s3_max_connections: usize,
    /// Maximum number of S3 requests in progress over all connections; beyond it SlowDown is answered
    #[arg(long, value_name = "COUNT", default_value = "8192", value_parser = count)]
    pub s3_max_requests: usize,
    /// Memory limit for all S3 uploads in progress; an upload that gets none waits, and is then answered SlowDown
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = memory)]
    pub s3_body_memory: Size,
    /// Memory limit for all S3 downloads and listings in progress; beyond it they wait, and are then answered SlowDown
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = memory)]
    pub s3_answer_memory: Size,
    /// Timeout of an idle S3 connection
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub s3_idle_time: Period,
    /// Timeout of an S3 upload whose client sends nothing
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub s3_upload_stall: Period,
    /// Timeout of an S3 download whose client reads nothing
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub s3_download_stall: Period,
    /// Maximum number of mounts, of `amphora mount` and CSI together
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = count)]
    pub max_mounts: usize,
    /// Keep the idle processors of a virtual machine of at most 4 awake while a mount serves over 5,000 requests a
    /// second; this affects the whole machine
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set)]
    pub keep_awake: bool,
    /// S3 region
    #[arg(long, value_name = "REGION", default_value = "us-east-1", value_parser = region)]
    pub region: String,
    /// URL of the S3 endpoint for COSI Secrets [default: http:// or https:// and the address of --s3-listen]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub s3_endpoint_url: Option<String>,
    /// Create buckets with all four settings of the public access block on, as on AWS
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub s3_block_public_access: bool,
    /// Accept presigned URLs of Signature Version 2, the default of older SDKs
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub s3_presigned_v2: bool,
    /// Issuer of OpenID Connect tokens that STS exchanges for short-lived keys, exactly as the tokens name it (iss); such
    /// as the issuer of a Kubernetes cluster's ServiceAccounts. Needs --oidc-audience [default: none]
    #[arg(long, value_name = "URL")]
    pub oidc_issuer: Option<String>,
    /// Audience that such tokens must have (aud); comma-separated or repeated for several
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub oidc_audience: Vec<String>,
    /// Public keys of the issuer: a file, or an https:// URL [default: what the issuer's discovery document names]
    #[arg(long, value_name = "FILE|URL")]
    pub oidc_jwks: Option<String>,
    /// Certificate authorities (PEM) to trust for the issuer's server [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub oidc_ca: Option<PathBuf>,
    /// Bearer token to send to the issuer's server, as the API server of Kubernetes requires one; read for each fetch
    #[arg(long, value_name = "FILE")]
    pub oidc_token_file: Option<PathBuf>,
    /// More issuers, each with its own audiences and keys: a TOML file with a table [[issuer]] for each [default: none]
    #[arg(long, value_name = "FILE")]
    pub oidc_issuers: Option<PathBuf>,
    /// Maximum age of buffered lines of buckets' access logs (PutBucketLogging) before they are delivered
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub s3_access_log_delay: Period,
    /// Interval of the background scrub, which verifies all checksums, from the start of one pass to the next; or off
    #[arg(long, value_name = "TIME|off", default_value = "7d")]
    pub scrub_interval: Interval,
    /// Read limit of the scrub per second
    #[arg(long, value_name = "SIZE", default_value = "20Mi", value_parser = rate)]
    pub scrub_rate: Size,
    /// Length of a day in lifecycle rules; for tests
    #[arg(long, value_name = "TIME", default_value = "24h", hide_short_help = true)]
    pub lifecycle_day: Period,
    /// CSI node id [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = word)]
    pub node_id: Option<String>,
    /// CSI driver name
    #[arg(long, value_name = "NAME", default_value = "csi.amphora.dev", value_parser = word)]
    pub csi_driver_name: String,
    /// Where CSI volumes can be used, as labels of nodes; this node has them too [default: everywhere]
    #[arg(long, value_name = "KEY=VALUE,…", default_value = "", hide_default_value = true)]
    pub csi_topology: csi::Topology,
    /// Maximum number of CSI volumes on this node [default: --max-mounts]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub csi_max_volumes: Option<usize>,
    /// COSI driver name
    #[arg(long, value_name = "NAME", default_value = "cosi.amphora.dev", value_parser = word)]
    pub cosi_driver_name: String,
    /// Age of a new bucket at which COSI's CreateBucket answers, multiplied by the number of buckets created in the
    /// last minute; or off. The COSI controller 0.2.2 needs the time to write a bucket's name into its claim
    #[arg(long, value_name = "TIME|off", default_value = "2s")]
    pub cosi_answer_delay: Interval,
    /// Format of the log on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log level: off, error, warn, info, debug or trace; also per module (info,s3=debug)
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = log::filter)]
    pub log_level: String,
    /// Allow core dumps when the server crashes; they contain keys and data
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub core_dumps: bool,
    /// File for the audit trail as JSON lines, beside the log; created with mode 0600 if it does not exist
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Validate the settings and exit
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub check_config: bool,
    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "use an IP address and a port, as in 127.0.0.1:9000 or [::1]:9000".into())
}

pub(crate) fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("use a whole number from 1 to 1000000".into()),
    }
}

fn lease(text: &str) -> Result<Period, String> {
    let period: Period = text.parse()?;
    let seconds = period.0.as_secs();
    if (2..=600).contains(&seconds) { Ok(period) } else { Err("use 2s to 10m".into()) }
}

fn memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.bytes < MEMORY_MIN { Err("use 16Mi or more".into()) } else { Ok(size) }
}

fn rate(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.bytes == 0 { Err("use 1 or more".into()) } else { Ok(size) }
}

pub(crate) fn word(text: &str) -> Result<String, String> {
    let good = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if good { Ok(text.to_owned()) } else { Err("use 1 to 128 visible ASCII characters".into()) }
}

fn region(text: &str) -> Result<String, String> {
    let good = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if good { Ok(text.to_owned()) } else { Err("use 1 to 64 lower-case letters, digits and \"-\"".into()) }
}

fn url(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let good = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'));
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if good && plain {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err("use http:// or https:// and a host".into())
    }
}
