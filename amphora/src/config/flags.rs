//! The flags of `serve`, each with its parser.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Interval, Period, Size, SocketPath};

/// The largest share that one request may ask for is 37 MiB; it gets all there is if that is less.
const MEMORY_MIN: u64 = 16 << 20;

/// The flags of `serve`. A field `s3_listen` is the flag `--s3-listen`, `AMPHORA_S3_LISTEN` in the environment and
/// the key `s3-listen` of the file.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Each flag is also a variable of the environment (--s3-listen: AMPHORA_S3_LISTEN) and a key of \
                        the TOML file of --config (s3-listen = \"127.0.0.1:9000\"). A flag goes before the environment, \
                        the environment before the file.\n\nAMPHORA_ROOT_ACCESS_KEY_ID and \
                        AMPHORA_ROOT_SECRET_ACCESS_KEY set the root key at the first start."
)]
pub struct Flags {
    /// Folder of the store; made if absent
    #[arg(long, value_name = "DIR", default_value = "./amphora-data")]
    pub data_dir: PathBuf,
    /// File of the master key, which secrets are sealed under; made at the first start [default: master.key in the data
    /// folder]
    #[arg(long, value_name = "FILE")]
    pub master_key_file: Option<PathBuf>,
    /// Where S3 is served; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9000", value_parser = address)]
    pub s3_listen: SocketAddr,
    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9001", value_parser = address)]
    pub http_listen: SocketAddr,
    /// Socket of the CSI services (also: CSI_ENDPOINT) [default: DATA_DIR/run/csi.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub csi_endpoint: Option<SocketPath>,
    /// A socket of its own for the CSI node service [default: the one of --csi-endpoint]
    #[arg(long, value_name = "unix://PATH")]
    pub csi_node_endpoint: Option<SocketPath>,
    /// Socket of the COSI services (also: COSI_ENDPOINT) [default: DATA_DIR/run/cosi.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub cosi_endpoint: Option<SocketPath>,
    /// Socket of the holder, which keeps mounts while no server runs [default: DATA_DIR/run/holder.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub holder_endpoint: Option<SocketPath>,
    /// Do without a holder: mounts end with the server
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_holder: bool,
    /// Unmount what `amphora mount` mounted when the server is told to stop, instead of leaving it to the next server
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub unmount_at_exit: bool,
    /// Certificate chain (PEM) to serve S3 with TLS; taken anew when the file changes. Needs --tls-key
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM, not encrypted) of --tls-cert
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// A domain whose hosts are buckets, as in BUCKET.NAME; several with commas or repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub s3_domain: Vec<s3::Domain>,
    /// S3 connections at once
    #[arg(long, value_name = "COUNT", default_value = "4096", value_parser = count)]
    pub s3_max_connections: usize,
    /// S3 requests under way at once, over all connections; one more is told to slow down
    #[arg(long, value_name = "COUNT", default_value = "8192", value_parser = count)]
    pub s3_max_requests: usize,
    /// Memory of all S3 uploads under way; one that finds none waits, and is then told to slow down
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = memory)]
    pub s3_body_memory: Size,
    /// The same of all S3 downloads and listings under way
    #[arg(long, value_name = "SIZE", default_value = "512Mi", value_parser = memory)]
    pub s3_answer_memory: Size,
    /// How long an S3 connection may be idle
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub s3_idle_time: Period,
    /// How long an S3 upload may send nothing
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub s3_upload_stall: Period,
    /// How long an S3 client may take nothing of an answer
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub s3_download_stall: Period,
    /// Mounts at once, of `amphora mount` and CSI together
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = count)]
    pub max_mounts: usize,
    /// Keep idle processors of the machine awake (a virtual one of at most 4) while a mount gets over 5,000 requests a second
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set)]
    pub keep_awake: bool,
    /// S3 region
    #[arg(long, value_name = "REGION", default_value = "us-east-1", value_parser = region)]
    pub region: String,
    /// The URL of S3 that COSI Secrets carry [default: http:// or https:// and the address of --s3-listen]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub s3_endpoint_url: Option<String>,
    /// Whether new buckets begin with all four settings of their public access block on, as on AWS
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub s3_block_public_access: bool,
    /// Whether presigned URLs of Signature Version 2 are taken, which old signers make by default
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub s3_presigned_v2: bool,
    /// How often all content is compared with its checksums: from the begin of a pass to that of the next; or off
    #[arg(long, value_name = "TIME|off", default_value = "7d")]
    pub scrub_interval: Interval,
    /// What is read for that in a second, at most
    #[arg(long, value_name = "SIZE", default_value = "20Mi", value_parser = rate)]
    pub scrub_rate: Size,
    /// How long a day of lifecycle rules lasts; for tests
    #[arg(long, value_name = "TIME", default_value = "24h", hide_short_help = true)]
    pub lifecycle_day: Period,
    /// CSI name of this node [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = word)]
    pub node_id: Option<String>,
    /// CSI name of the driver
    #[arg(long, value_name = "NAME", default_value = "csi.amphora.dev", value_parser = word)]
    pub csi_driver_name: String,
    /// COSI name of the driver
    #[arg(long, value_name = "NAME", default_value = "cosi.amphora.dev", value_parser = word)]
    pub cosi_driver_name: String,
    /// How old a new bucket is when COSI's CreateBucket answers, times the number of buckets made in the last minute; or
    /// off. The COSI controller 0.2.2 needs the time to write a bucket's name into its claim
    #[arg(long, value_name = "TIME|off", default_value = "2s")]
    pub cosi_answer_delay: Interval,
    /// How logs are written to stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: off, error, warn, info, debug or trace, also by module (info,s3=debug)
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = crate::logs::check_filter)]
    pub log_level: String,
    /// Let the system write a core dump, which holds keys and data, when the server crashes
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub core_dumps: bool,
    /// A file that the audit trail is also written to, as JSON lines; made if absent, with mode 0600
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// Say whether the settings are good, and end
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub check_config: bool,
    /// TOML file with further settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "use an IP address and a port, as in 127.0.0.1:9000 or [::1]:9000".into())
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("use a whole number from 1 to 1000000".into()),
    }
}

fn memory(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.bytes < MEMORY_MIN { Err("use 16Mi or more".into()) } else { Ok(size) }
}

fn rate(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    if size.bytes == 0 { Err("use 1 or more".into()) } else { Ok(size) }
}

fn word(text: &str) -> Result<String, String> {
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
