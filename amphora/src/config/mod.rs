//! The settings of `serve`, from flags, environment and file, validated before anything is touched.
//!
//! - Precedence: flag, environment, file, default (`cli::layers`). The same parsers validate all four.
//! - A bad value or an unknown key ends the start with exit status 2 and is named.

pub(crate) mod content;
mod flags;
mod log;
mod metadata;
mod oidc;
mod period;
mod size;
mod socket;

pub use flags::Flags;
pub(crate) use flags::{address, count, word};
pub use log::LogFormat;
pub(crate) use log::filter;
pub use metadata::{LogPlace, Metadata, MetadataUrl};
pub use period::{Interval, Period};
pub use size::Size;
pub use socket::SocketPath;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::credentials::Credentials;
use crate::failure::Failure;
pub use crate::process::Env;

/// The complete settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data folder as an absolute path.
    pub data_dir: PathBuf,
    /// The bucket for content; `None`: the data folder has it.
    pub content: Option<objstore::ContentBucket>,
    /// The absolute path of the master key file; `None`: the one in the data folder.
    pub master_key: Option<PathBuf>,
    /// The log of the metadata on other machines; `None`: the data folder keeps the metadata.
    pub metadata: Option<Metadata>,
    /// The address of the S3 endpoint.
    pub s3_listen: SocketAddr,
    /// The address for metrics and health.
    pub http_listen: SocketAddr,
    /// The TLS certificate of S3; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The volume listener; `None`: only this machine mounts.
    pub volumes: Option<VolumeListener>,
    /// The domains for virtual-hosted addressing.
    pub s3_domains: s3::Domains,
    /// The address of the website endpoint; `None`: websites are not served.
    pub website_listen: Option<SocketAddr>,
    /// The domains of websites.
    pub website_domains: s3::Domains,
    /// The most S3 connections.
    pub s3_max_connections: usize,
    /// The most S3 requests in progress.
    pub s3_max_requests: usize,
    /// Memory for S3 request bodies in progress, in bytes.
    pub s3_body_memory: u64,
    /// Memory for S3 responses in progress, in bytes.
    pub s3_answer_memory: u64,
    /// How long an S3 connection may be idle.
    pub s3_idle_time: Duration,
    /// How long the client of an S3 upload may send nothing.
    pub s3_upload_stall: Duration,
    /// How long the client of an S3 download may read nothing.
    pub s3_download_stall: Duration,
    /// The most mounts.
    pub max_mounts: usize,
    /// Whether the administrator's mounts end with the server.
    pub unmount_at_exit: bool,
    /// Whether busy mounts may keep the machine's idle processors awake.
    pub keep_awake: bool,
    /// The Unix sockets.
    pub sockets: Sockets,
    /// S3 region.
    pub region: String,
    /// The URL of S3 in COSI Secrets; `None`: the address of the S3 endpoint.
    pub s3_endpoint_url: Option<String>,
    /// Whether new buckets have their public access block on.
    pub s3_block_public_access: bool,
    /// Whether S3 accepts presigned URLs of Signature Version 2.
    pub s3_presigned_v2: bool,
    /// The issuers of OpenID Connect whose tokens STS accepts.
    pub oidc: Vec<s3::Issuer>,
    /// The one of the cluster's ServiceAccounts, for COSI.
    pub cluster_issuer: Option<String>,
    /// How old a line of a bucket's access log gets before it is delivered.
    pub s3_access_log_delay: Duration,
    /// The length of a day in lifecycle rules.
    pub lifecycle_day: Duration,
    /// The interval and read limit of the scrub.
    pub scrub: objstore::scrub::Rate,
    /// CSI node id.
    pub node_id: String,
    /// CSI driver name.
    pub csi_driver_name: String,
    /// Where volumes of CSI can be used.
    pub csi_topology: csi::Topology,
    /// The most volumes of CSI on this node.
    pub csi_max_volumes: usize,
    /// COSI driver name.
    pub cosi_driver_name: String,
    /// Whether stderr is a terminal, so that hints for the first steps are printed.
    pub hints: bool,
    /// The age of a new bucket at which COSI answers its creation.
    pub cosi_answer_delay: Duration,
    /// The root key to set at the first start.
    pub root_key: Option<Credentials>,
}

/// The settings of the volume listener.
#[derive(Clone, Debug)]
pub struct VolumeListener {
    /// The address.
    pub listen: SocketAddr,
    /// The certificate; `None`: one that the store's own authority issues.
    pub tls: Option<TlsFiles>,
    /// The authority whose certificates nodes have to show; `None`: they need none.
    pub client_ca: Option<PathBuf>,
    /// The lease of sessions.
    pub lease: Duration,
}

/// The files of a TLS certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// The Unix sockets of a server, all different.
#[derive(Clone, Debug)]
pub struct Sockets {
    /// The socket of the admin service.
    pub admin: SocketPath,
    /// The socket of CSI: all services, or all but the node service.
    pub csi: SocketPath,
    /// The separate socket of the CSI node service, if any.
    pub csi_node: Option<SocketPath>,
    /// Whether the CSI node service is served.
    pub serves_csi_node: bool,
    /// The socket of COSI.
    pub cosi: SocketPath,
    /// The socket of the fd holder; `None`: run without one.
    pub holder: Option<SocketPath>,
    /// Whether to start a holder where none answers.
    pub start_holder: bool,
    /// The socket at which an earlier server may have had a holder, if this one runs without.
    pub former_holder: Option<SocketPath>,
}

impl Settings {
    /// Derives dependent settings and checks their combinations.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming the setting.
    pub fn new(flags: Flags, admin: Option<SocketPath>, env: Env<'_>) -> Result<Self, Failure> {
        let data_dir = std::path::absolute(&flags.data_dir)
            .map_err(|error| Failure::usage(format!("--data-dir {}: {error}", flags.data_dir.display())))?;
        let oidc = oidc::issuers(&flags)?;
        let content = content::content(&flags)?;
        let metadata = metadata::metadata(&flags, &data_dir, env)?;
        let holder = or_default(flags.holder_endpoint, &data_dir, "holder");
        let former_holder = holder.as_ref().ok().filter(|_| flags.no_holder).cloned();
        let sockets = Sockets {
            admin: or_default(admin, &data_dir, "admin")?,
            csi: or_default(flags.csi_endpoint, &data_dir, "csi")?,
            csi_node: flags.csi_node_endpoint,
            serves_csi_node: flags.csi_node,
            cosi: or_default(flags.cosi_endpoint, &data_dir, "cosi")?,
            holder: if flags.no_holder { None } else { Some(holder?) },
            start_holder: flags.start_holder,
            former_holder,
        };
        sockets.check_distinct()?;
        if flags.website_listen.is_none() && !flags.website_domain.is_empty() {
            let words = "--website-domain is set and --website-listen is not: name the address of the website endpoint";
            return Err(Failure::usage(words));
        }
        let master_key = flags.master_key_file.map(|file| {
            let made = std::path::absolute(&file);
            made.map_err(|error| Failure::usage(format!("--master-key-file {}: {error}", file.display())))
        });
        Ok(Self {
            data_dir,
            content,
            master_key: master_key.transpose()?,
            metadata,
            s3_listen: flags.s3_listen,
            http_listen: flags.http_listen,
            tls: tls(("--tls-cert", flags.tls_cert), ("--tls-key", flags.tls_key))?,
            volumes: volumes(
                flags.volume_listen,
                tls(("--volume-cert", flags.volume_cert), ("--volume-key", flags.volume_key))?,
                flags.volume_client_ca,
                flags.volume_lease.0,
            )?,
            s3_domains: flags.s3_domain.into_iter().collect(),
            website_listen: flags.website_listen,
            website_domains: flags.website_domain.into_iter().collect(),
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
            oidc,
            cluster_issuer: flags.oidc_issuer,
            s3_access_log_delay: flags.s3_access_log_delay.0,
            lifecycle_day: flags.lifecycle_day.0,
            scrub: objstore::scrub::Rate { interval: flags.scrub_interval.0, bytes_per_second: flags.scrub_rate.bytes },
            node_id: flags.node_id.unwrap_or_else(host_name),
            csi_driver_name: flags.csi_driver_name,
            csi_topology: flags.csi_topology,
            csi_max_volumes: flags.csi_max_volumes.unwrap_or(flags.max_mounts),
            cosi_driver_name: flags.cosi_driver_name,
            hints: flags.log_format == LogFormat::Text,
            cosi_answer_delay: flags.cosi_answer_delay.0.unwrap_or_default(),
            root_key: root_key(env)?,
        })
    }
}

impl Sockets {
    fn check_distinct(&self) -> Result<(), Failure> {
        if self.csi_node.is_some() && !self.serves_csi_node {
            return Err(Failure::usage("--csi-node-endpoint is set and --csi-node is false: leave one of them out"));
        }
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

/// The default socket of a server on `data_dir`.
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

/// A flag and its file.
pub type FileFlag = (&'static str, Option<PathBuf>);

/// A certificate and its key, of two flags that are set both or neither.
///
/// # Errors
/// [`Failure::Usage`] for one without the other.
pub fn tls((flag, certificate): FileFlag, (key_flag, key): FileFlag) -> Result<Option<TlsFiles>, Failure> {
    let half =
        |set: &str, unset: &str| Err(Failure::usage(format!("{set} is set and {unset} is not: set both or neither")));
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (Some(_), None) => half(flag, key_flag),
        (None, Some(_)) => half(key_flag, flag),
    }
}

fn volumes(
    listen: Option<SocketAddr>,
    tls: Option<TlsFiles>,
    client_ca: Option<PathBuf>,
    lease: Duration,
) -> Result<Option<VolumeListener>, Failure> {
    let alone = |flag: &str| {
        let why = format!("{flag} is set and --volume-listen is not: name the address of the volume listener");
        Err(Failure::usage(why))
    };
    match listen {
        Some(listen) => Ok(Some(VolumeListener { listen, tls, client_ca, lease })),
        None if tls.is_some() => alone("--volume-cert"),
        None if client_ca.is_some() => alone("--volume-client-ca"),
        None => Ok(None),
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

pub(crate) fn host_name() -> String {
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
        assert_eq!((settings.max_mounts, settings.s3_access_log_delay), (1000, Duration::from_secs(300)));
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
    fn a_domain_of_websites_needs_their_listener() {
        let text = settings(&["--website-domain=w.example.org"], &[]).expect_err("no listener").to_string();
        assert!(text.contains("--website-listen"), "{text}");
        let both = ["--website-domain=w.example.org", "--website-listen=127.0.0.1:0"];
        assert!(settings(&both, &[]).expect("both").website_listen.is_some());
    }

    #[test]
    fn half_a_root_key_is_refused() {
        let text = settings(&[], &[("AMPHORA_ROOT_ACCESS_KEY_ID", "AKIAAAAA")]).expect_err("half").to_string();
        assert!(text.contains("AMPHORA_ROOT_SECRET_ACCESS_KEY"), "{text}");
    }
}
