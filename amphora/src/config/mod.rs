//! What `serve` is told: flags, environment and file, checked before anything is touched.
//!
//! - Precedence: flag, environment, file, default. All four pass the same parsers.
//! - A bad value or an unknown key ends the start with exit status 2, named.

mod layers;
mod period;
mod size;
mod socket;

pub use layers::{Env, parse};
pub use period::Period;
pub use size::Size;
pub use socket::SocketPath;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::credentials::Credentials;
use crate::failure::Failure;

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
    /// S3 region
    #[arg(long, value_name = "REGION", default_value = "us-east-1", value_parser = region)]
    pub region: String,
    /// The URL of S3 that COSI Secrets carry [default: http:// and the address of --s3-listen]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub s3_endpoint_url: Option<String>,
    /// Whether new buckets begin with all four settings of their public access block on, as on AWS
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub s3_block_public_access: bool,
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
    /// How logs are written to stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What is logged: off, error, warn, info, debug or trace, also by module (info,s3=debug)
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = crate::logs::check_filter)]
    pub log_level: String,
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

/// What `serve` runs with: nothing left to decide.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Absolute.
    pub data_dir: PathBuf,
    /// Where S3 is served.
    pub s3_listen: SocketAddr,
    /// Where metrics and health are served.
    pub http_listen: SocketAddr,
    /// The Unix sockets.
    pub sockets: Sockets,
    /// S3 region.
    pub region: String,
    /// What COSI Secrets carry; `None`: the address S3 is served at.
    pub s3_endpoint_url: Option<String>,
    /// Whether new buckets begin with their public access block on.
    pub s3_block_public_access: bool,
    /// How long a day of lifecycle rules lasts.
    pub lifecycle_day: Duration,
    /// CSI node id.
    pub node_id: String,
    /// CSI driver name.
    pub csi_driver_name: String,
    /// COSI driver name.
    pub cosi_driver_name: String,
    /// The root key to set at the first start.
    pub root_key: Option<Credentials>,
}

/// The Unix sockets of a server, no two alike.
#[derive(Clone, Debug)]
pub struct Sockets {
    /// The admin service.
    pub admin: SocketPath,
    /// CSI, all services or all but the node's.
    pub csi: SocketPath,
    /// The CSI node service, if on a socket of its own.
    pub csi_node: Option<SocketPath>,
    /// COSI.
    pub cosi: SocketPath,
}

impl Settings {
    /// Fills in what follows from other settings and checks what only shows together.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the setting.
    pub fn new(flags: Flags, admin: Option<SocketPath>, env: Env<'_>) -> Result<Self, Failure> {
        let data_dir = std::path::absolute(&flags.data_dir)
            .map_err(|error| Failure::usage(format!("--data-dir {}: {error}", flags.data_dir.display())))?;
        let sockets = Sockets {
            admin: or_default(admin, &data_dir, "admin")?,
            csi: or_default(flags.csi_endpoint, &data_dir, "csi")?,
            csi_node: flags.csi_node_endpoint,
            cosi: or_default(flags.cosi_endpoint, &data_dir, "cosi")?,
        };
        sockets.check_distinct()?;
        Ok(Self {
            data_dir,
            s3_listen: flags.s3_listen,
            http_listen: flags.http_listen,
            sockets,
            region: flags.region,
            s3_endpoint_url: flags.s3_endpoint_url,
            s3_block_public_access: flags.s3_block_public_access,
            lifecycle_day: flags.lifecycle_day.0,
            node_id: flags.node_id.unwrap_or_else(host_name),
            csi_driver_name: flags.csi_driver_name,
            cosi_driver_name: flags.cosi_driver_name,
            root_key: root_key(env)?,
        })
    }
}

impl Sockets {
    fn check_distinct(&self) -> Result<(), Failure> {
        let named = [
            ("--admin-endpoint", Some(&self.admin)),
            ("--csi-endpoint", Some(&self.csi)),
            ("--csi-node-endpoint", self.csi_node.as_ref()),
            ("--cosi-endpoint", Some(&self.cosi)),
        ];
        for (at, (flag, socket)) in named.iter().enumerate() {
            let twin = named[..at].iter().find(|(_, other)| socket.is_some() && other == socket);
            if let (Some(socket), Some((other, _))) = (socket, twin) {
                return Err(Failure::usage(format!("{flag} {socket} is also the socket of {other}: use another path")));
            }
        }
        Ok(())
    }
}

/// The socket of a server on `data_dir` that was not told another.
///
/// # Errors
/// [`Failure::Usage`] when the path is too long.
pub fn default_socket(data_dir: &Path, name: &str) -> Result<SocketPath, Failure> {
    let path = data_dir.join("run").join(format!("{name}.sock"));
    SocketPath::new(&path).map_err(|why| Failure::usage(format!("{why} with --{name}-endpoint")))
}

fn or_default(socket: Option<SocketPath>, data_dir: &Path, name: &str) -> Result<SocketPath, Failure> {
    socket.map_or_else(|| default_socket(data_dir, name), Ok)
}

fn root_key(env: Env<'_>) -> Result<Option<Credentials>, Failure> {
    const ID: &str = "AMPHORA_ROOT_ACCESS_KEY_ID";
    const SECRET: &str = "AMPHORA_ROOT_SECRET_ACCESS_KEY";
    let get = |name| env(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
    match (get(ID), get(SECRET)) {
        (None, None) => Ok(None),
        (Some(id), Some(secret)) => {
            let checked = Credentials::new(id, secret);
            checked.map(Some).map_err(|why| Failure::usage(format!("{ID} and {SECRET}: {why}")))
        }
        (Some(_), None) => Err(Failure::usage(format!("{ID} is set and {SECRET} is not: set both or neither"))),
        (None, Some(_)) => Err(Failure::usage(format!("{SECRET} is set and {ID} is not: set both or neither"))),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "use an IP address and a port, as in 127.0.0.1:9000 or [::1]:9000".into())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(args: &[&str]) -> Flags {
        use clap::{Args as _, FromArgMatches as _};
        let command = Flags::augment_args(clap::Command::new("serve").no_binary_name(true));
        Flags::from_arg_matches(&command.get_matches_from(args)).expect("flags")
    }

    fn settings(args: &[&str], env: &[(&str, &str)]) -> Result<Settings, Failure> {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
        Settings::new(flags(args), None, &env)
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let settings = settings(&[], &[]).expect("defaults");
        assert!(settings.data_dir.ends_with("amphora-data") && settings.data_dir.is_absolute());
        assert_eq!(settings.s3_listen.to_string(), "127.0.0.1:9000");
        assert_eq!(settings.http_listen.to_string(), "127.0.0.1:9001");
        assert_eq!(settings.sockets.admin.path(), settings.data_dir.join("run/admin.sock"));
        assert_eq!(settings.region, "us-east-1");
        assert!(settings.s3_block_public_access);
        assert_eq!(settings.lifecycle_day, Duration::from_secs(24 * 60 * 60));
        assert!(settings.root_key.is_none() && !settings.node_id.is_empty());
    }

    #[test]
    fn two_services_cannot_share_a_socket() {
        let error = settings(&["--csi-endpoint=/a.sock", "--cosi-endpoint=/a.sock"], &[]).expect_err("shared");
        let text = error.to_string();
        assert!(text.contains("--cosi-endpoint") && text.contains("--csi-endpoint"), "{text}");
    }

    #[test]
    fn a_data_dir_too_deep_for_its_sockets_is_refused() {
        let deep = format!("--data-dir=/{}", "d".repeat(100));
        let text = settings(&[&deep], &[]).expect_err("too deep").to_string();
        assert!(text.contains("107") && text.contains("--admin-endpoint"), "{text}");
    }

    #[test]
    fn half_a_root_key_is_refused() {
        let text = settings(&[], &[("AMPHORA_ROOT_ACCESS_KEY_ID", "AKIAAAAA")]).expect_err("half").to_string();
        assert!(text.contains("AMPHORA_ROOT_SECRET_ACCESS_KEY"), "{text}");
    }
}
