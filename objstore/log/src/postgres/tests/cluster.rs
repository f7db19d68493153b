//! A PostgreSQL in a temporary folder, on a Unix socket and, if it has certificates, on a loopback port.
//!
//! - Root runs it as the user `postgres`, which Debian's packages create, since PostgreSQL refuses to run as root.
//! - Dropping it kills it.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process, test_kill_process};
use tempfile::TempDir;

/// A cluster, or the end of the test where PostgreSQL is not installed.
macro_rules! need_cluster {
    ($settings:expr) => {
        match Cluster::start($settings) {
            Ok(cluster) => cluster,
            Err(why) => {
                println!("skipped: {why}");
                return;
            }
        }
    };
}
pub(super) use need_cluster;

pub(super) struct Cluster {
    programs: PathBuf,
    /// The user and group that run it, if they are others.
    owner: Option<(u32, u32)>,
    folder: TempDir,
    settings: Vec<String>,
}

impl Cluster {
    /// Creates a cluster with these settings and starts it.
    pub fn start(settings: &[&str]) -> Result<Self, String> {
        let cluster = Self::create(settings)?;
        cluster.run("initdb", ["-k", "-A", "trust", "-U", "postgres", "-D", &cluster.data()])?;
        cluster.restart();
        Ok(cluster)
    }

    /// A copy of this cluster that follows it as its standby, started.
    pub fn standby(&self) -> Self {
        let standby = Self::create(&[]).expect("installed");
        standby.run("pg_basebackup", ["-h", &self.sockets(), "-U", "postgres", "-R", "-D", &standby.data()]).unwrap();
        standby.restart();
        standby
    }

    /// Starts it, after it was killed, with other settings.
    pub fn with(mut self, settings: &[&str]) -> Self {
        self.settings = settings.iter().map(ToString::to_string).collect();
        self.restart();
        self
    }

    fn create(settings: &[&str]) -> Result<Self, String> {
        let owner = if getuid().is_root() { Some(postgres_user()?) } else { None };
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("its mode");
        for name in ["data", "sockets"] {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).expect("a folder for PostgreSQL");
            std::fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("its mode");
            chown(&path, owner.map(|owner| owner.0), owner.map(|owner| owner.1)).expect("its owner");
        }
        let settings = settings.iter().map(ToString::to_string).collect();
        Ok(Self { programs: installed()?, owner, folder, settings })
    }

    /// The URL of the database on the socket.
    pub fn url(&self) -> String {
        format!("postgres:///postgres?user=postgres&host={}", self.sockets().replace('/', "%2F"))
    }

    /// A URL by which a client tries this cluster and then another one.
    pub fn url_with(&self, other: &Self) -> String {
        format!("{}&host={}", self.url(), other.sockets().replace('/', "%2F"))
    }

    pub fn sockets(&self) -> String {
        self.folder.path().join("sockets").display().to_string()
    }

    pub fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    /// Writes a file into the data folder, for PostgreSQL alone to read.
    pub fn write(&self, name: &str, content: &str) {
        let path = Path::new(&self.data()).join(name);
        std::fs::write(&path, content).expect("a file for PostgreSQL");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its mode");
        chown(&path, self.owner.map(|owner| owner.0), self.owner.map(|owner| owner.1)).expect("its owner");
    }

    /// Starts it, with recovery if it was killed, and waits until it answers.
    pub fn restart(&self) {
        let log = format!("{}/log", self.sockets());
        let settings: String = self.settings.iter().map(|setting| format!(" -c {setting}")).collect();
        let options = format!("-c listen_addresses= -k {}{settings}", self.sockets());
        let begun = Instant::now();
        // After a kill the old processes release the shared memory with a delay.
        while let Err(why) =
            self.run("pg_ctl", ["-D", &self.data(), "-w", "-t", "120", "-o", &options, "-l", &log, "start"])
        {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(60), "PostgreSQL does not start: {why}\n{log}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        self.run("pg_ctl", ["-D", &self.data(), "-w", "-t", "60", "promote"]).unwrap();
    }

    /// Kills it with SIGKILL.
    pub fn kill9(&self) {
        let file = std::fs::read_to_string(Path::new(&self.data()).join("postmaster.pid")).unwrap_or_default();
        let Some(pid) = file.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw) else { return };
        let _ = kill_process(pid, Signal::KILL);
        let begun = Instant::now();
        while test_kill_process(pid).is_ok() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The output of a statement.
    pub fn sql(&self, statement: &str) -> String {
        self.run("psql", ["-h", &self.sockets(), "-U", "postgres", "-At", "-c", statement, "postgres"]).unwrap()
    }

    /// Changes a setting of the running cluster.
    pub fn set(&self, setting: &str) {
        self.sql(&format!("ALTER SYSTEM SET {setting}"));
        self.sql("SELECT pg_reload_conf()");
    }

    fn run(&self, program: &str, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String, String> {
        let program = self.programs.join(program);
        let mut command = match self.owner {
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()]);
                command.arg(&program);
                command
            }
            None => Command::new(&program),
        };
        // pg_ctl starts a server that would keep a pipe open, so the output goes to a file.
        let shown = tempfile::tempfile().map_err(|error| error.to_string())?;
        let copy = || shown.try_clone().map_err(|error| error.to_string());
        command.args(args).current_dir("/").env("LC_ALL", "C").stdin(std::process::Stdio::null());
        let status = command.stdout(copy()?).stderr(copy()?).status().map_err(|error| error.to_string())?;
        let output = read(shown);
        if status.success() {
            Ok(output.trim_end().to_owned())
        } else {
            Err(format!("{}: {output}", program.display()))
        }
    }
}

fn read(mut file: std::fs::File) -> String {
    use std::io::{Read as _, Seek as _};
    let mut output = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut output)).expect("an output");
    output
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// The folder of PostgreSQL's programs, of the newest version.
fn installed() -> Result<PathBuf, String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    found.retain(|programs| programs.join("initdb").is_file());
    found.sort();
    found.pop().ok_or_else(|| "postgresql is not installed: run tests/setup.sh".to_owned())
}

fn postgres_user() -> Result<(u32, u32), String> {
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut entries = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let entry = entries.find(|fields| fields.first() == Some(&"postgres")).ok_or("there is no user postgres")?;
    let number = |at: usize| entry.get(at).and_then(|text| text.parse().ok());
    number(2).zip(number(3)).ok_or_else(|| "the user postgres has no number".to_owned())
}
