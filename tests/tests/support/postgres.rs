//! A PostgreSQL cluster of the installed PostgreSQL, with its data on a mount, or for the metadata of stores.
//!
//! - It runs as the user `postgres`, who owns the data folder; its socket and log lie beside the mount, not on it.
//! - Dropping it kills it.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tests::prelude::*;

/// The user that Debian's packages create.
const USER: &str = "postgres";
const DATABASE: &str = "bench";

/// A cluster.
pub struct Postgres {
    programs: PathBuf,
    owner: Owner,
    data: PathBuf,
    sockets: PathBuf,
}

#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

/// The folder of PostgreSQL's programs, of the newest version.
///
/// # Errors
/// If it is not installed, or its user is missing; the text is the reason of a skip.
pub fn installed() -> Result<PathBuf, String> {
    owner()?;
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|programs| programs.join("initdb").is_file() && programs.join("pg_amcheck").is_file());
    found.sort();
    found.pop().ok_or_else(|| "postgresql is not installed: run tests/setup.sh".to_owned())
}

fn owner() -> Result<Owner, String> {
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut entries = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = entries.find(|fields| fields.first() == Some(&USER)).ok_or("there is no user postgres")?;
    let number = |at: usize| entry.get(at).and_then(|text| text.parse().ok());
    let (Some(user), Some(group)) = (number(2), number(3)) else {
        return Err("the user postgres has no number".to_owned());
    };
    Ok(Owner { user, group })
}

impl Postgres {
    /// Creates a cluster with checksums below `mounted`, whose parent folders its user has to be able to traverse.
    pub fn init(programs: PathBuf, home: &Path, mounted: &Path) -> Self {
        let owner = owner().expect("asked before");
        let (data, sockets) = (mounted.join("pgdata"), home.join("pg"));
        for dir in [&data, &sockets] {
            std::fs::create_dir(dir).expect("a folder for PostgreSQL");
            std::fs::set_permissions(dir, Permissions::from_mode(0o700)).expect("its mode");
            chown(dir, Some(owner.user), Some(owner.group)).expect("its owner");
        }
        let cluster = Self { programs, owner, data, sockets };
        let data = cluster.data.clone();
        let args = [OsStr::new("-k"), "-A".as_ref(), "trust".as_ref(), "-D".as_ref(), data.as_os_str()];
        cluster.run("initdb", args, limit(120));
        cluster
    }

    /// A cluster with its data in a new folder of its own, started: for the metadata of stores.
    ///
    /// # Errors
    /// If PostgreSQL is not installed; the text is the reason of a skip.
    pub fn of_metadata() -> Result<(Self, tempfile::TempDir), String> {
        let programs = installed()?;
        let folder = tempfile::Builder::new().prefix("amphora-pg-").tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its mode");
        let cluster = Self::init(programs, folder.path(), folder.path());
        cluster.start();
        Ok((cluster, folder))
    }

    /// A standby of it, started, and from now on its synchronous one.
    pub fn replica(&self) -> (tempfile::TempDir, Self) {
        let folder = tempfile::Builder::new().prefix("amphora-pg-").tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its mode");
        let (data, sockets) = (folder.path().join("pgdata"), folder.path().join("pg"));
        for dir in [&data, &sockets] {
            std::fs::create_dir(dir).expect("a folder for PostgreSQL");
            std::fs::set_permissions(dir, Permissions::from_mode(0o700)).expect("its mode");
            chown(dir, Some(self.owner.user), Some(self.owner.group)).expect("its owner");
        }
        self.run("pg_basebackup", [OsStr::new("-R"), "-D".as_ref(), data.as_os_str()], limit(120));
        let replica = Self { programs: self.programs.clone(), owner: self.owner, data, sockets };
        replica.start();
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("SELECT pg_reload_conf()");
        let is_set = || (self.sql("SHOW synchronous_standby_names") == "*").then_some(());
        wait_until(Duration::from_secs(30), is_set).expect("the setting takes effect");
        (folder, replica)
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        drop(self.control("promote").expect("pg_ctl ends").ok());
    }

    /// The URL by which a client tries this one and then another.
    pub fn url_with(&self, other: &Self) -> String {
        format!("{}&host={}", self.url(), other.sockets.display().to_string().replace('/', "%2F"))
    }

    /// The URL of its database `postgres`, for `--metadata-url`.
    pub fn url(&self) -> String {
        format!("postgres:///postgres?user={USER}&host={}", self.sockets.display().to_string().replace('/', "%2F"))
    }

    /// Lets this role in by its password alone.
    pub fn require_passwords_of(&self, role: &str) {
        let file = self.data.join("pg_hba.conf");
        let rules = std::fs::read_to_string(&file).expect("its rules");
        std::fs::write(&file, format!("local all {role} scram-sha-256\n{rules}")).expect("its rules");
        self.sql("SELECT pg_reload_conf()");
    }

    /// The output of a statement in the database `postgres`.
    pub fn sql(&self, statement: &str) -> String {
        self.run("psql", ["-At", "-c", statement, "postgres"], limit(60)).trim().to_owned()
    }

    /// Starts it, including recovery, and waits until it answers.
    pub fn start(&self) {
        // After a kill the old processes release the shared memory with a delay.
        let gone = wait_until(Duration::from_secs(30), || self.control("start").ok().filter(|it| it.status.success()));
        assert!(gone.is_some(), "PostgreSQL does not start; its log:\n{}", self.log());
    }

    /// Stops it as an operator would.
    pub fn stop(&self) {
        drop(self.control("stop").expect("pg_ctl ends").ok());
    }

    /// Kills all of it with SIGKILL.
    pub fn kill9(&self) {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let Some(pid) = file.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw) else {
            return;
        };
        // Its children end when they notice.
        let _ = kill_process(pid, Signal::KILL);
        let gone = || test_kill_process(pid).is_err().then_some(());
        wait_until(Duration::from_secs(60), gone).expect("a killed process is gone");
    }

    /// Creates the tables of pgbench.
    pub fn load(&self, scale: u32) {
        self.run("createdb", [DATABASE], limit(60));
        self.run("pgbench", ["-i", "-q", "-s", &scale.to_string(), DATABASE], limit(120));
    }

    /// A run of pgbench; [`Postgres::audit`] checks the resulting tables.
    pub fn bench(&self, clients: u32, seconds: u64) -> Command {
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        self.program("pgbench", ["-n", "-c", &clients, "-j", "2", "-T", &seconds, DATABASE])
    }

    /// The number of transactions in the output of pgbench.
    pub fn transactions(output: &str) -> u64 {
        let mut lines =
            output.lines().filter_map(|line| line.strip_prefix("number of transactions actually processed:"));
        let count = lines.next().and_then(|rest| rest.trim().split('/').next()).and_then(|count| count.parse().ok());
        count.unwrap_or_else(|| panic!("pgbench reports no count:\n{output}"))
    }

    /// The number of transactions in the tables of pgbench, whose sums have to agree.
    pub fn audit(&self) -> u64 {
        let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers) \
                    and (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches) \
                    and (select coalesce(sum(delta), 0) from pgbench_history) = \
                    (select sum(bbalance) from pgbench_branches), (select count(*) from pgbench_history)";
        let output = self.run("psql", ["-At", "-c", sums, DATABASE], limit(60));
        let (agree, count) = output.trim().split_once('|').expect("two columns");
        assert_eq!(agree, "t", "the sums of pgbench differ");
        count.parse().expect("a count")
    }

    /// Compares every index with its table, then stops the cluster and verifies every page's checksum.
    pub fn check_and_stop(&self) {
        self.run("pg_amcheck", ["--install-missing", "--heapallindexed", "--parent-check", DATABASE], limit(120));
        self.stop();
        let data = self.data.clone();
        let output = self.run("pg_checksums", [OsStr::new("--check"), "-D".as_ref(), data.as_os_str()], limit(120));
        assert!(output.lines().any(|line| line.split_whitespace().eq(["Bad", "checksums:", "0"])), "{output}");
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.sockets.join("log")).unwrap_or_default()
    }

    fn control(&self, verb: &str) -> Result<Outcome, String> {
        let log = self.sockets.join("log");
        let settings = format!("-c listen_addresses='' -c max_wal_size=64MB -k {}", self.sockets.display());
        let mut command = self.program("pg_ctl", [OsStr::new("-D"), self.data.as_os_str(), "-w".as_ref()]);
        command.args(["-t", "120", "-m", "fast", "-o", &settings, "-l"]).arg(log).arg(verb);
        run(&mut command, limit(150))
    }

    fn run(&self, program: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>, limit: Duration) -> String {
        run(&mut self.program(program, args), limit).unwrap_or_else(|error| panic!("{error}")).ok()
    }

    fn program(&self, program: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new("setpriv");
        let Owner { user, group } = self.owner;
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
        command.arg(self.programs.join(program)).args(args).current_dir("/");
        command.env("PGHOST", &self.sockets).env("PGUSER", USER).env("LC_ALL", "C").env("HOME", &self.sockets);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if std::thread::panicking() {
            use std::io::Write as _;
            // The test harness shows it when the test fails.
            let _ = writeln!(std::io::stderr(), "--- the log of PostgreSQL:\n{}", self.log());
        }
        self.kill9();
    }
}
