//! The flags of `amphora node`.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::config::{LogFormat, SocketPath, address, count, filter, word};
use crate::failure::Failure;

/// The folder of the node of a machine.
pub const STATE_DIR: &str = "/run/amphora-node";

/// The flags of `amphora node`.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeFlags {
    /// Folder of the node: its sockets and a counter; created if it does not exist. It needs no disk: /run will do
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    pub state_dir: PathBuf,
    /// Name of this machine at the store [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = word)]
    pub node_id: Option<String>,
    /// Socket of the CSI node service, which mounts the volumes of --server [default: none]
    #[arg(long, value_name = "unix://PATH")]
    pub csi_node_endpoint: Option<SocketPath>,
    /// CSI driver name
    #[arg(long, value_name = "NAME", default_value = "csi.amphora.dev", value_parser = word)]
    pub csi_driver_name: String,
    /// Where this node is, as labels; volumes of a store with `serve --csi-topology` are used where its labels are [default: none]
    #[arg(long, value_name = "KEY=VALUE,…", default_value = "", hide_default_value = true)]
    pub csi_topology: csi::Topology,
    /// Maximum number of CSI volumes on this node [default: --max-mounts]
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub csi_max_volumes: Option<usize>,
    /// The volume listener of the store of CSI volumes
    #[arg(long, value_name = "HOST:PORT")]
    pub server: Option<String>,
    /// Certificates (PEM) of the authority that issued the certificate of --server [default: the store's own authority,
    /// which each attachment of a volume names]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate chain (PEM) of this node, for a store with --volume-client-ca; it has to name the node. Read again at each
    /// connection. Needs --key
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Private key (PEM, not encrypted) of --cert
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Address of /metrics, /healthz and /readyz [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub http_listen: Option<SocketAddr>,
    /// Socket of the fd holder, which keeps mounts while no node runs [default: STATE_DIR/run/holder.sock]
    #[arg(long, value_name = "unix://PATH")]
    pub holder_endpoint: Option<SocketPath>,
    /// Start a holder where none answers; false where the holder is a service or a pod of its own
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub start_holder: bool,
    /// Run without the fd holder: mounts end with the node
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_holder: bool,
    /// Unmount the mounts of `amphora mount` when the node stops, instead of keeping them for the next one
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub unmount_at_exit: bool,
    /// Maximum number of mounts
    #[arg(long, value_name = "COUNT", default_value = "1000", value_parser = count)]
    pub max_mounts: usize,
    /// Format of the log on stderr
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log level: off, error, warn, info, debug or trace; also per module
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = filter)]
    pub log_level: String,
    /// Allow core dumps when the node crashes; they contain keys and data
    #[arg(long, value_name = "true|false", default_value_t = false, action = clap::ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub core_dumps: bool,
    /// End when nothing is mounted any more; `amphora mount --server` starts the node of a mount in this way
    #[arg(long, hide = true)]
    pub while_needed: bool,
    /// Leave the session of the starting process, and start the node again if it crashes
    #[arg(long, hide = true)]
    pub detached: bool,
    /// With --detached: do nothing if the node of the folder is started again already, or has ended
    #[arg(long, hide = true)]
    pub again: bool,
}

impl NodeFlags {
    /// The state folder as an absolute path.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is no working directory.
    pub(super) fn state_dir(&self) -> Result<PathBuf, Failure> {
        let made = std::path::absolute(&self.state_dir);
        made.map_err(|error| Failure::usage(format!("--state-dir {}: {error}", self.state_dir.display())))
    }
}
