//! What `serve` is told: flags, environment and file, checked before anything is touched.
//!
//! - Precedence: flag, environment, file, default. All four pass the same parsers.
//! - A bad value or an unknown key ends the start with exit status 2, named.

mod flags;
mod layers;
mod period;
mod size;
mod socket;

pub use flags::{Flags, LogFormat};
pub use layers::{Env, parse};
pub use period::{Interval, Period};
pub use size::Size;
pub use socket::SocketPath;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::credentials::Credentials;
use crate::failure::Failure;

/// What `serve` runs with: nothing left to decide.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Absolute.
    pub data_dir: PathBuf,
    /// The file of the master key, absolute; `None`: the one in the data folder.
    pub master_key: Option<PathBuf>,
    /// Where S3 is served.
    pub s3_listen: SocketAddr,
    /// Where metrics and health are served.
    pub http_listen: SocketAddr,
    /// The certificate S3 is served with; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The domains whose hosts are buckets.
    pub s3_domains: s3::Domains,
    /// S3 connections at once.
    pub s3_max_connections: usize,
    /// S3 requests at once.
    pub s3_max_requests: usize,
    /// Memory of S3 bodies under way, in bytes.
    pub s3_body_memory: u64,
    /// Memory of S3 answers under way, in bytes.
    pub s3_answer_memory: u64,
    /// How long an S3 connection may be idle.
    pub s3_idle_time: Duration,
    /// How long an S3 body may send nothing.
    pub s3_upload_stall: Duration,
    /// How long nothing of an S3 answer may be taken.
    pub s3_download_stall: Duration,
    /// Mounts at once.
    pub max_mounts: usize,
    /// Whether the administrator's mounts end with the server.
    pub unmount_at_exit: bool,
    /// Whether busy mounts may keep the machine's idle processors awake.
    pub keep_awake: bool,
    /// The Unix sockets.
    pub sockets: Sockets,
    /// S3 region.
    pub region: String,
    /// What COSI Secrets carry; `None`: the address S3 is served at.
    pub s3_endpoint_url: Option<String>,
    /// Whether new buckets begin with their public access block on.
    pub s3_block_public_access: bool,
    /// Whether S3 takes presigned URLs of Signature Version 2.
    pub s3_presigned_v2: bool,
    /// How long a day of lifecycle rules lasts.
    pub lifecycle_day: Duration,
    /// How often and how fast content is compared with its checksums.
    pub scrub: objstore::scrub::Rate,
    /// CSI node id.
    pub node_id: String,
    /// CSI driver name.
    pub csi_driver_name: String,
    /// COSI driver name.
    pub cosi_driver_name: String,
    /// Whether people read stderr, who may be told how to begin.
    pub hints: bool,
    /// How old a new bucket is when COSI answers for it.
    pub cosi_answer_delay: Duration,
    /// The root key to set at the first start.
    pub root_key: Option<Credentials>,
}

/// Where a certificate is.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
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
    /// The holder's; `None`: do without one.
    pub holder: Option<SocketPath>,
    /// Where a server before this one may have had a holder, if this one does without.
    pub former_holder: Option<SocketPath>,
}

impl Settings {
    /// Fills in what follows from other settings and checks what only shows together.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the setting.
    pub fn new(flags: Flags, admin: Option<SocketPath>, env: Env<'_>) -> Result<Self, Failure> {
        let data_dir = std::path::absolute(&flags.data_dir)
            .map_err(|error| Failure::usage(format!("--data-dir {}: {error}", flags.data_dir.display())))?;
        let holder = or_default(flags.holder_endpoint, &data_dir, "holder");
        let former_holder = holder.as_ref().ok().filter(|_| flags.no_holder).cloned();
        let sockets = Sockets {
            admin: or_default(admin, &data_dir, "admin")?,
            csi: or_default(flags.csi_endpoint, &data_dir, "csi")?,
            csi_node: flags.csi_node_endpoint,
            cosi: or_default(flags.cosi_endpoint, &data_dir, "cosi")?,
            holder: if flags.no_holder { None } else { Some(holder?) },
            former_holder,
        };
        sockets.check_distinct()?;
        let master_key = flags.master_key_file.map(|file| {
            let made = std::path::absolute(&file);
            made.map_err(|error| Failure::usage(format!("--master-key-file {}: {error}", file.display())))
        });
        Ok(Self {
            data_dir,
            master_key: master_key.transpose()?,
            s3_listen: flags.s3_listen,
            http_listen: flags.http_listen,
            tls: tls(flags.tls_cert, flags.tls_key)?,
            s3_domains: flags.s3_domain.into_iter().collect(),
            s3_max_connections: flags.s3_max_connections,
            s3_max_requests: flags.s3_max_requests,
            s3_body_memory: flags.s3_body_memory.bytes,
            s3_answer_memory: flags.s3_answer_memory.bytes,
            s3_idle_time: flags.s3_idle_time.0,
            s3_upload_stall: flags.s3_upload_stall.0,
            s3_download_stall: flags.s3_download_stall.0,
            max_mounts: flags.max_mounts,
            unmount_at_exit: flags.unmount_at_exit,
            keep_awake: flags.keep_awake,
            sockets,
            region: flags.region,
            s3_endpoint_url: flags.s3_endpoint_url,
            s3_block_public_access: flags.s3_block_public_access,
            s3_presigned_v2: flags.s3_presigned_v2,
            lifecycle_day: flags.lifecycle_day.0,
            scrub: objstore::scrub::Rate { interval: flags.scrub_interval.0, bytes_per_second: flags.scrub_rate.bytes },
            node_id: flags.node_id.unwrap_or_else(host_name),
            csi_driver_name: flags.csi_driver_name,
            cosi_driver_name: flags.cosi_driver_name,
            hints: flags.log_format == LogFormat::Text,
            cosi_answer_delay: flags.cosi_answer_delay.0.unwrap_or_default(),
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
            ("--holder-endpoint", self.holder.as_ref()),
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

fn tls(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>, Failure> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => Err(Failure::usage("--tls-cert is set and --tls-key is not: set both or neither")),
        (None, Some(_)) => Err(Failure::usage("--tls-key is set and --tls-cert is not: set both or neither")),
    }
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
        assert_eq!(settings.sockets.holder.expect("on").path(), settings.data_dir.join("run/holder.sock"));
        assert_eq!(settings.region, "us-east-1");
        assert!(settings.tls.is_none());
        assert_eq!((settings.s3_max_connections, settings.s3_max_requests), (4096, 8192));
        assert_eq!((settings.s3_body_memory, settings.s3_answer_memory), (512 << 20, 512 << 20));
        assert_eq!(settings.max_mounts, 1000);
        assert!(settings.s3_block_public_access && settings.s3_presigned_v2);
        assert_eq!(settings.lifecycle_day, Duration::from_secs(24 * 60 * 60));
        assert!(settings.root_key.is_none() && !settings.node_id.is_empty());
    }

    #[test]
    fn idle_processors_are_kept_awake_only_if_asked() {
        let keep_awake = |args: &[&str]| settings(args, &[]).expect("good").keep_awake;
        assert!(!keep_awake(&[]) && !keep_awake(&["--keep-awake=false"]) && keep_awake(&["--keep-awake=true"]));
    }

    #[test]
    fn two_services_cannot_share_a_socket() {
        let error = settings(&["--csi-endpoint=/a.sock", "--cosi-endpoint=/a.sock"], &[]).expect_err("shared");
        let text = error.to_string();
        assert!(text.contains("--cosi-endpoint") && text.contains("--csi-endpoint"), "{text}");
    }

    #[test]
    fn a_holder_is_done_without_only_when_asked() {
        let holder = |args: &[&str]| settings(args, &[]).expect("good").sockets.holder;
        assert_eq!(holder(&["--holder-endpoint=/h.sock"]).expect("on").to_string(), "unix:///h.sock");
        assert!(holder(&["--no-holder"]).is_none() && holder(&["--no-holder=true"]).is_none());
        assert!(holder(&["--no-holder=false"]).is_some());
        let text = settings(&["--holder-endpoint=/a.sock", "--cosi-endpoint=/a.sock"], &[]).expect_err("shared");
        assert!(text.to_string().contains("--holder-endpoint"), "{text}");
    }

    #[test]
    fn a_data_dir_too_deep_for_its_sockets_is_refused() {
        let deep = format!("--data-dir=/{}", "d".repeat(100));
        let text = settings(&[&deep], &[]).expect_err("too deep").to_string();
        assert!(text.contains("107") && text.contains("--admin-endpoint"), "{text}");
    }

    #[test]
    fn half_a_certificate_is_refused() {
        assert!(settings(&["--tls-cert=a", "--tls-key=b"], &[]).expect("both").tls.is_some());
        for half in ["--tls-cert=a", "--tls-key=a"] {
            let text = settings(&[half], &[]).expect_err("half").to_string();
            assert!(text.contains("--tls-cert") && text.contains("--tls-key") && text.contains("both"), "{text}");
        }
    }

    #[test]
    fn half_a_root_key_is_refused() {
        let text = settings(&[], &[("AMPHORA_ROOT_ACCESS_KEY_ID", "AKIAAAAA")]).expect_err("half").to_string();
        assert!(text.contains("AMPHORA_ROOT_SECRET_ACCESS_KEY"), "{text}");
    }
}
