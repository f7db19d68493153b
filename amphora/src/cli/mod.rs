//! The command line: one file per noun, each with its arguments and its requests to the server.
//!
//! - Flags, exit statuses and JSON field names are stable, because people and tests script them.
//! - Every command except `serve`, `holder`, `check`, `migrate`, `completions` and those on backup folders talks to a running
//!   server over its admin socket; `umount` also works without one.

mod account;
mod backup;
mod bucket;
mod check;
mod check_elsewhere;
mod client;
mod examples;
mod grant;
mod handover;
mod hidden;
mod holders;
mod key;
mod layers;
mod link;
mod master;
mod migrate;
mod mount;
mod node;
mod node_status;
mod output;
mod progress;
mod restore;
mod role;
mod scrub;
mod session;
mod snapshot;
mod status;
mod upgrade;
mod volume;

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::config::{Env, Flags, SocketPath};
use crate::failure::Failure;
use crate::holder::Holder;
use client::Client;
use output::Printer;

/// The position in `--help` of flags that all commands share: after a command's own.
const LAST: usize = 900;

/// Object and volume store: every bucket is served by S3 and can be mounted as a file system.
#[derive(Debug, Parser)]
#[command(name = "amphora", version, arg_required_else_help = true, after_help = examples::ALL)]
pub struct Cli {
    /// Admin socket of the server (also: AMPHORA_ADMIN_ENDPOINT) [default: run/admin.sock in the data folder, which is
    /// ./amphora-data unless AMPHORA_DATA_DIR names another; if none is there, /run/amphora/admin.sock]
    #[arg(long, global = true, value_name = "unix://PATH", display_order = LAST)]
    pub admin_endpoint: Option<SocketPath>,
    /// Output format
    #[arg(long, global = true, value_enum, default_value_t = output::Format::Text, display_order = LAST)]
    output: output::Format,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one value in a process")]
pub enum Command {
    /// Run the server
    Serve(Flags),
    /// Manage buckets
    #[command(subcommand, after_help = examples::BUCKET)]
    Bucket(bucket::Command),
    /// Manage accounts
    #[command(subcommand, after_help = examples::ACCOUNT)]
    Account(account::Command),
    /// Manage the access keys of accounts
    #[command(subcommand, after_help = examples::KEY)]
    Key(key::Command),
    /// Manage the key that encrypts the secrets in the store
    #[command(subcommand, after_help = examples::MASTER_KEY)]
    MasterKey(master::Command),
    /// Manage the grants of accounts on buckets
    #[command(subcommand, after_help = examples::GRANT)]
    Grant(grant::Command),
    /// Manage the roles of accounts, which STS exchanges tokens for short-lived keys of
    #[command(subcommand, after_help = examples::ROLE)]
    Role(role::Command),
    /// Manage snapshots of buckets
    #[command(subcommand, after_help = examples::SNAPSHOT)]
    Snapshot(snapshot::Command),
    /// Show CSI volumes
    #[command(subcommand, after_help = examples::VOLUME)]
    Volume(volume::Command),
    /// Show and end the sessions of mounts on other machines
    #[command(subcommand, after_help = examples::SESSION)]
    Session(session::Command),
    /// Mount a bucket or a snapshot at a directory
    #[command(after_help = examples::MOUNT)]
    Mount(mount::Mount),
    /// Unmount a directory
    #[command(after_help = examples::UMOUNT)]
    Umount(mount::umount::Umount),
    /// Run a node: mounts of buckets whose stores are on other machines; it has no store
    #[command(after_help = examples::NODE)]
    Node(node::Node),
    /// Run the fd holder, which keeps mounts while no server runs; `serve` starts one if none runs
    Holder(Holder),
    /// Deliver the cache invalidations of a mount to the kernel; `serve` starts one for each persistent mount
    #[command(hide = true)]
    Notifier,
    /// Verify the records and checksums of a store while no server runs on it
    #[command(after_help = examples::CHECK)]
    Check(check::Check),
    /// Move a store from its data folder to PostgreSQL and S3, or back, while no server runs
    #[command(after_help = examples::MIGRATE)]
    Migrate(migrate::Migrate),
    /// Verify the checksums of all content now, while the server runs
    #[command(after_help = examples::SCRUB)]
    Scrub(scrub::Scrub),
    /// Back up buckets into a folder; list, verify and prune backups
    #[command(after_help = examples::BACKUP)]
    Backup(backup::Backup),
    /// Restore buckets from a folder of backups
    #[command(after_help = examples::RESTORE)]
    Restore(restore::Restore),
    /// Show the state of the server, its mounts and lost mounts
    Status,
    /// Upgrade the running server in place to the installed binary; mounts stay
    Upgrade,
    /// Hand the store over to a standby, and continue as its standby (with --metadata-url)
    #[command(after_help = examples::HANDOVER)]
    Handover(handover::Handover),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Runs one command line to its end.
///
/// # Errors
/// Why it was refused or failed, with its exit status.
pub fn run(args: impl IntoIterator<Item = OsString>, env: Env<'_>) -> Result<(), Failure> {
    let args: Vec<_> = args.into_iter().collect();
    if mount::helper::is_called(&args) {
        return runtime()?.block_on(mount::helper::run(args, env)).map_err(Failure::of_mount_helper);
    }
    let cli: Cli = layers::parse(args, env)?;
    let mut printer = Printer::to_stdout(cli.output);
    match cli.command {
        Command::Serve(flags) => crate::serve::run(flags, cli.admin_endpoint, env),
        Command::Node(node::Node { look: None, flags }) => crate::node::run(flags, cli.admin_endpoint, env),
        Command::Holder(holder) => holder.run(env),
        Command::Notifier => fuse::run_notifier().map_err(|error| {
            Failure::failed(format!("the process of the server that started this one is gone ({error})"))
        }),
        Command::Check(check) => check.run(env, &mut printer),
        Command::Migrate(migrate) => migrate.run(env, &mut printer),
        Command::Backup(backup) if backup.is_local() => backup.look_after(&mut printer),
        Command::Completions { shell } => completions(shell, &mut printer),
        command => {
            let socket = match cli.admin_endpoint {
                Some(named) => named,
                None => default_endpoint(env).map(|own| if command.is_of_nodes() { or_node(own) } else { own })?,
            };
            runtime()?.block_on(ask(command, &socket, &mut printer, env))
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::failed(format!("no async runtime: {error}")))
}

async fn ask(command: Command, socket: &SocketPath, printer: &mut Printer, env: Env<'_>) -> Result<(), Failure> {
    match command {
        Command::Umount(umount) => return umount.run(socket, env).await,
        Command::Mount(mount) => return mount.run(socket, printer).await,
        Command::Status if client::is_absent(socket) && node_status::of_own_nodes(printer).await? => return Ok(()),
        _ => {}
    }
    let mut client = Client::connect(socket).await?;
    match command {
        Command::Bucket(command) => command.run(&mut client, printer).await,
        Command::Account(command) => command.run(&mut client, printer).await,
        Command::Key(command) => command.run(&mut client, printer).await,
        Command::MasterKey(command) => command.run(&mut client, printer).await,
        Command::Grant(command) => command.run(&mut client, printer).await,
        Command::Role(command) => command.run(&mut client, printer).await,
        Command::Snapshot(command) => command.run(&mut client, printer).await,
        Command::Volume(command) => command.run(&mut client, printer).await,
        Command::Session(command) => command.run(&mut client, printer).await,
        Command::Node(node::Node { look: Some(look), .. }) => look.run(&mut client, printer).await,
        Command::Scrub(scrub) => scrub.run(&mut client, printer).await,
        Command::Backup(backup) => backup.run(&mut client, printer).await,
        Command::Restore(restore) => restore.run(&mut client, printer).await,
        Command::Status => status::run(&mut client, printer).await,
        Command::Upgrade => upgrade::run(client, socket, printer).await,
        Command::Handover(handover) => handover.run(client, socket, printer).await,
        Command::Serve(_)
        | Command::Node(node::Node { look: None, .. })
        | Command::Holder(_)
        | Command::Notifier
        | Command::Check(_)
        | Command::Migrate(_)
        | Command::Mount(_)
        | Command::Umount(_)
        | Command::Completions { .. } => {
            unreachable!("needs no server")
        }
    }
}

impl Command {
    /// Whether a node answers it, too.
    fn is_of_nodes(&self) -> bool {
        match self {
            Self::Status => true,
            Self::Mount(mount) => mount.is_look(),
            _ => false,
        }
    }
}

/// The socket of a server, or that of the node of this machine if no server answers and a node does.
fn or_node(server: SocketPath) -> SocketPath {
    let node = crate::config::default_socket(Path::new(crate::node::STATE_DIR), "admin").ok();
    let node = node.filter(|node| client::is_absent(&server) && !client::is_absent(node));
    node.unwrap_or(server)
}

/// The admin socket of the systemd unit's server.
const PACKAGED_SOCKET: &str = "/run/amphora/admin.sock";

/// The socket of a server started with the same environment and without `--admin-endpoint`. If it does not exist and no
/// data folder is named, the socket of the systemd unit's server.
fn default_endpoint(env: Env<'_>) -> Result<SocketPath, Failure> {
    endpoint(env, Path::new(PACKAGED_SOCKET))
}

fn endpoint(env: Env<'_>, packaged: &Path) -> Result<SocketPath, Failure> {
    let named = env("AMPHORA_DATA_DIR").filter(|dir| !dir.is_empty());
    let is_named = named.is_some();
    let data_dir = std::path::absolute(named.unwrap_or_else(|| "./amphora-data".into()))
        .map_err(|error| Failure::usage(format!("AMPHORA_DATA_DIR: {error}")))?;
    let own = crate::config::default_socket(&data_dir, "admin");
    let is_there = own.as_ref().is_ok_and(|own| own.path().exists());
    if is_named || is_there || !packaged.exists() {
        return own;
    }
    SocketPath::new(packaged).map_err(Failure::usage)
}

fn completions(shell: clap_complete::Shell, printer: &mut Printer) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "amphora", &mut script);
    printer.raw(&script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_line_of_the_manual_parses() {
        for line in [
            "serve --data-dir d --s3-listen 127.0.0.1:0 --http-listen 127.0.0.1:0 --csi-endpoint unix:///a \
             --csi-node-endpoint unix:///b --cosi-endpoint unix:///c --admin-endpoint unix:///d --region r --node-id n \
             --s3-endpoint-url http://s3 --csi-driver-name a.b --cosi-driver-name c.d --cosi-answer-delay 5s --config f \
             --tls-cert c --tls-key k --s3-domain a.b,c.d --s3-domain e --website-listen 127.0.0.1:0 --website-domain w --volume-listen 127.0.0.1:0 --volume-cert c --volume-key k --volume-client-ca n --volume-lease 5s --s3-max-connections 9 \
             --s3-block-public-access false --s3-presigned-v2 false --s3-access-log-delay 1m --lifecycle-day 10s --scrub-interval off --scrub-rate 1Gi \
             --holder-endpoint unix:///e --start-holder false --no-holder --unmount-at-exit --master-key-file k --core-dumps",
            "holder --socket unix:///e --detached --node d",
            "bucket create b --quota 10Gi --versioning --from-snapshot s --owner a",
            "bucket list --output json",
            "--output json --admin-endpoint unix:///d bucket show b",
            "bucket set b --quota 1Gi --versioning suspended",
            "bucket set b --no-quota",
            "bucket delete b --force",
            "account create a --may-create-buckets",
            "account list",
            "account delete a",
            "key create --account a",
            "key list --account a",
            "key delete AK",
            "key rotate --account a",
            "master-key rotate",
            "grant add b --account a --mode ro",
            "grant list",
            "grant remove b --account a",
            "snapshot create b s",
            "snapshot list b",
            "snapshot delete s",
            "volume list",
            "volume show b",
            "session list --bucket b --node n",
            "session ls --ended --output json",
            "session show 00000000000000000000000000000001",
            "session end 00000000000000000000000000000001",
            "node list",
            "mount b /mnt -o ro,uid=1,gid=2,umask=077,prefix=x/y,readahead=64Ki,cache=off --credentials f",
            "mount b /mnt --server h:1 --ca c --credentials f --cert c --key k",
            "mount b /mnt -o server=h:1,credentials=f,cert=c,key=k",
            "node --server h:1 --ca c --cert c --key k --csi-node-endpoint unix:///c --csi-driver-name a.b --http-listen 127.0.0.1:0 --node-id n",
            "node --state-dir d --node-id n --holder-endpoint unix:///h --start-holder false --no-holder --unmount-at-exit \
             --max-mounts 9 --log-format json --log-level warn --core-dumps --while-needed --detached --again",
            "mount stats",
            "mount stats /mnt",
            "mount trace /mnt",
            "mount -o rw stats /mnt",
            "mount b /mnt --keep -o remount,ro",
            "umount /mnt",
            "umount --lazy /mnt --holder-endpoint unix:///h",
            "check d --repair",
            "check d --metadata-only --master-key-file k",
            "check --metadata-url postgres://u@h/d --content-url s3://bucket/p --content-endpoint http://m:9 --checksums --scratch d",
            "check --metadata-url postgres://u@h/d --content-url s3://bucket --metadata-only --content-path-style true",
            "check --metadata-url s3://bucket/log --metadata-endpoint http://m:9 --content-url s3://bucket/p",
            "migrate --data-dir d --metadata-url postgres://u@h/d --single-postgres --content-url s3://bucket/p --content-endpoint http://m:9 --scratch t --master-key-file k --holder-endpoint unix:///h",
            "migrate --data-dir d --metadata-url s3://bucket/log --metadata-endpoint http://m:9 --content-url s3://bucket/p",
            "migrate --to-data-dir d --metadata-url postgres://u@h/d --content-url s3://bucket/p --content-region r --content-path-style false",
            "scrub --rate 100Mi",
            "backup b /d",
            "backup --all /d",
            "backup list /d",
            "backup verify /d",
            "backup prune /d --keep 3",
            "restore /d b",
            "restore /d b --at 20261121T223523.123Z --as c",
            "restore /d --all",
            "status --output=json",
            "upgrade",
            "handover --wait 5m",
            "completions bash",
        ] {
            let words = std::iter::once("amphora").chain(line.split_whitespace());
            if let Err(error) = Cli::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn the_socket_of_the_service_stands_in_for_one_that_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let packaged = folder.path().join("packaged.sock");
        let named = folder.path().join("named");
        let env = |name: &str| (name == "AMPHORA_DATA_DIR").then(|| named.clone().into_os_string());
        let chosen = |env: Env<'_>| endpoint(env, &packaged).expect("a path");
        assert!(chosen(&|_| None).path().ends_with("amphora-data/run/admin.sock"), "neither socket exists");
        std::fs::write(&packaged, "").expect("made");
        assert_eq!(chosen(&|_| None).path(), packaged);
        assert_eq!(chosen(&env).path(), named.join("run/admin.sock"), "the environment names a data folder");
    }

    #[test]
    fn a_change_of_a_bucket_without_one_is_told_what_can_be_changed() {
        let error = Cli::try_parse_from(["amphora", "bucket", "set", "b"]).expect_err("nothing to change").to_string();
        for flag in ["--quota", "--no-quota", "--versioning"] {
            assert!(error.contains(flag), "{flag}: {error}");
        }
    }

    #[test]
    fn help_shows_the_flags_of_a_command_before_those_of_all() {
        let help = Cli::try_parse_from(["amphora", "serve", "--help"]).expect_err("the help").to_string();
        let at = |flag: &str| help.find(&format!("{flag} <")).unwrap_or_else(|| panic!("{flag}: {help}"));
        assert!(at("--data-dir") < at("--admin-endpoint") && at("--config") < at("--admin-endpoint"), "{help}");
        assert!(at("--config") < at("--output"), "{help}");
    }

    #[test]
    fn every_command_group_shows_examples_that_parse() {
        let command = Cli::command();
        let groups = command.get_subcommands().filter(|command| command.has_subcommands());
        for group in groups {
            let shown = group.get_after_help().unwrap_or_else(|| panic!("{}", group.get_name())).to_string();
            assert!(shown.starts_with("Examples:\n"), "{shown}");
        }
        for shown in command.get_subcommands().chain([&command]).filter_map(clap::Command::get_after_help) {
            let text = shown.to_string();
            for line in text.lines().filter_map(|line| line.strip_prefix("  amphora ")) {
                let words = std::iter::once("amphora").chain(line.split_whitespace());
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn usual_short_words_stand_for_the_long_ones() {
        for (short, long) in [
            ("bucket ls", "bucket list"),
            ("bucket rm b --force", "bucket delete b --force"),
            ("account rm a", "account delete a"),
            ("key ls", "key list"),
            ("key rm AK", "key delete AK"),
            ("grant rm b --account a", "grant remove b --account a"),
            ("snapshot ls", "snapshot list"),
            ("snapshot rm s", "snapshot delete s"),
            ("volume ls", "volume list"),
            ("backup ls /d", "backup list /d"),
        ] {
            let parsed = |line: &str| {
                let words = std::iter::once("amphora").chain(line.split_whitespace());
                Cli::try_parse_from(words).map(|cli| format!("{:?}", cli.command)).map_err(|error| error.to_string())
            };
            assert_eq!(parsed(short), parsed(long));
            assert!(parsed(short).is_ok(), "{short}");
        }
        for line in ["help", "help bucket", "bucket help", "bucket help create", "help mount stats"] {
            let words = std::iter::once("amphora").chain(line.split_whitespace());
            let help = Cli::try_parse_from(words).expect_err("the help");
            assert_eq!(help.exit_code(), 0, "{line}: {help}");
        }
        for bucket_called_help in ["backup help /d", "mount help /mnt"] {
            let words = std::iter::once("amphora").chain(bucket_called_help.split_whitespace());
            Cli::try_parse_from(words).expect(bucket_called_help);
        }
    }

    #[test]
    fn wrong_usage_is_exit_status_2() {
        for line in ["bucket", "bucket create", "grant add b --account a --mode x", "bucket set b", "frobnicate"] {
            let words = std::iter::once("amphora").chain(line.split_whitespace());
            let error = Cli::try_parse_from(words).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
