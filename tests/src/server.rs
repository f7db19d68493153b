//! A running `amphora serve` on a new store, with its own ports and sockets.
//!
//! - It counts as started once its `ready` line is there; until then every wait is bounded.
//! - A restart uses the same data, ports and sockets.
//! - It has no fd holder, so its mounts end with it. [`Options::holder`] gives it one, which is ended when the
//!   [`Server`] is dropped.
//! - Dropping it kills it by process id; if the test is panicking, the end of its log is printed first.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustix::process::{Pid, Signal, kill_process};

use crate::child;
use crate::home::Home;
use crate::image::{Image, Kind};
use crate::launcher::Launcher;
use crate::namespace::Namespace;
use crate::place;
use crate::port::Port;
use crate::ready::Ready;
use crate::shared_store;
use crate::tls::Certificate;
use crate::tools;

/// The time limit of a start: a debug build that recovers a store, on a machine that runs other tests.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The time limit of a shutdown after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The port of the volume listener, at an address of its own.
const VOLUME_PORT: u16 = 7000;
/// How many log lines a panicking test shows.
const LOG_TAIL_LINES: usize = 200;

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    args: Vec<String>,
    envs: Vec<(String, String)>,
    split_csi: bool,
    tls: bool,
    holder: bool,
    image: Option<(Kind, u64)>,
    under: Vec<String>,
}

impl Options {
    /// Appends arguments to those of every server.
    #[must_use]
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.args.extend(args.into_iter().map(str::to_owned));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives the CSI node service a separate endpoint, `csi-node` in the ready line.
    #[must_use]
    pub fn split_csi(mut self) -> Self {
        self.split_csi = true;
        self
    }

    /// Serves S3 over TLS with a new certificate; clients have to trust [`Server::authority`].
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Makes mounts outlive the server, with a fd holder.
    #[must_use]
    pub fn holder(mut self) -> Self {
        self.holder = true;
        self
    }

    /// Puts the data folder on a separate file system of `bytes`: [`Server::image`].
    #[must_use]
    pub fn image(mut self, kind: Kind, bytes: u64) -> Self {
        self.image = Some((kind, bytes));
        self
    }

    /// Starts it through another program that executes it, such as `prlimit`.
    #[must_use]
    pub fn under<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.under = words.into_iter().map(str::to_owned).collect();
        self
    }

    /// Starts a server on a new store.
    ///
    /// # Errors
    /// If it is not built, ended or was not ready in time; the text contains its log.
    pub fn try_start(self) -> Result<Server, String> {
        let mut server = self.stopped()?;
        server.launch()?;
        Ok(server)
    }

    /// Starts a server that may have to wait for another one: [`Server::await_owner`] waits until it is ready.
    ///
    /// # Panics
    /// If it is not built.
    #[track_caller]
    #[must_use]
    pub fn start_standby(self) -> Server {
        let started = self.stopped().and_then(|mut server| server.spawn().map(|()| server));
        match started {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the test says where metadata or content is.
    fn chooses_its_store(&self) -> bool {
        let names = ["AMPHORA_METADATA_URL", "AMPHORA_CONTENT_URL"];
        let by_argument =
            self.args.iter().any(|arg| arg.starts_with("--metadata-url") || arg.starts_with("--content-url"));
        by_argument || self.envs.iter().any(|(name, _)| names.contains(&&**name))
    }

    /// A server that does not run yet.
    fn stopped(mut self) -> Result<Server, String> {
        if !self.chooses_its_store() {
            self.envs.extend(shared_store::environment()?);
        }
        let home = Home::new()?;
        let certificate = self.tls.then(|| Certificate::new(home.path())).transpose()?;
        let make = |(kind, bytes)| Image::make(kind, bytes, &home.path().join("disk"), &home.data_dir());
        let image = self.image.map(make).transpose()?;
        let namespace = place::is_elsewhere().then(Namespace::new).transpose()?;
        let launcher = Launcher::new()?;
        let ports = [("--s3-listen", Port::take()?), ("--http-listen", Port::take()?)];
        let (running, ready, seen) = (None, None, 0);
        Ok(Server { launcher, running, options: self, ready, seen, ports, certificate, image, namespace, home })
    }

    /// Starts a server on a new store.
    ///
    /// # Panics
    /// Where [`Options::try_start`] returns an error.
    #[track_caller]
    #[must_use]
    pub fn start(self) -> Server {
        // Not a closure: a panic in one would name this file instead of the test.
        match self.try_start() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }
}

/// An access key and its secret.
#[derive(Clone)]
pub struct Credentials {
    /// The access key id.
    pub access_key_id: String,
    /// The secret access key.
    pub secret_access_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// A server under test.
#[derive(Debug)]
pub struct Server {
    launcher: Launcher,
    running: Option<Pid>,
    options: Options,
    /// The ready line of the latest start.
    ready: Option<Ready>,
    /// The length of the log at the latest start, or behind the latest ready line that was waited for.
    seen: usize,
    /// The ports by flag, reserved across restarts.
    ports: [(&'static str, Port); 2],
    certificate: Option<Certificate>,
    image: Option<Image>,
    /// The other machine that mounts its buckets, if one does.
    namespace: Option<Namespace>,
    home: Home,
}

impl Server {
    /// Starts a server with default options.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    #[must_use]
    pub fn start() -> Self {
        Options::default().start()
    }

    /// The folder of this server; a test may put mount points and files of its own in it.
    #[must_use]
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The latest ready line.
    ///
    /// # Panics
    /// If the server was never ready.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        self.ready.as_ref().expect("a server is handed out only once it was ready")
    }

    /// The S3 endpoint, `http://127.0.0.1:PORT`, or `https://` with [`Options::tls`].
    #[must_use]
    pub fn s3(&self) -> &str {
        self.ready().word("s3")
    }

    /// The CA certificate that clients of a TLS server have to trust.
    #[must_use]
    pub fn authority(&self) -> Option<&Path> {
        self.certificate.as_ref().map(|certificate| certificate.authority.as_path())
    }

    /// The root key.
    ///
    /// # Panics
    /// If the credentials file cannot be read or has no key.
    #[track_caller]
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        let path = self.ready().word("credentials");
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let value = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned());
            found.unwrap_or_else(|| panic!("{path} has no {name}"))
        };
        Credentials { access_key_id: value("aws_access_key_id"), secret_access_key: value("aws_secret_access_key") }
    }

    /// The separate file system of the data folder, with [`Options::image`].
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn image(&self) -> &Image {
        self.image.as_ref().expect("a server that was given one")
    }

    /// The other machine that mounts its buckets, if one does.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// The address of its volume listener for the other machine.
    #[must_use]
    pub fn volume(&self) -> Option<String> {
        self.namespace.as_ref().map(|namespace| format!("{}:{VOLUME_PORT}", namespace.address()))
    }

    /// The options of later starts.
    pub fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// The process id; `None` when it is not running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// A command of the same binary that talks to this server: `server.cli(["bucket", "list"])`.
    ///
    /// # Panics
    /// If the binary is missing.
    #[must_use]
    pub fn cli(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(tools::amphora().expect("the binary the server was started from"));
        command.args(args).env("AMPHORA_ADMIN_ENDPOINT", unix(&self.home.socket("admin")));
        command
    }

    /// The arguments of `amphora check` for the store of this server, wherever that is.
    #[must_use]
    pub fn check_arguments(&self) -> Vec<String> {
        let place = shared_store::check_arguments(&self.options.envs);
        let place = place.unwrap_or_else(|| vec![self.home.data_dir().display().to_string()]);
        std::iter::once("check".to_owned()).chain(place).collect()
    }

    /// Everything that the server has logged since its first start.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.home.log()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Kills the server with SIGKILL, as a crash would. Does nothing if it is not running.
    ///
    /// # Panics
    /// If it does not end within the limit.
    pub fn kill9(&mut self) {
        if let Some(pid) = self.running.take() {
            // The call fails only if the process has ended already.
            let _ = kill_process(pid, Signal::KILL);
            let gone = self.launcher.ended(STOP_LIMIT).is_some();
            assert!(gone || std::thread::panicking(), "the server was still there {STOP_LIMIT:?} after SIGKILL");
        }
    }

    /// Stops the server with SIGTERM and returns its exit status.
    ///
    /// # Panics
    /// If it is not running, or does not end within the limit (it is then killed).
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        let pid = self.running.expect("the server is running");
        let _ = kill_process(pid, Signal::TERM);
        let Some(status) = self.launcher.ended(STOP_LIMIT) else {
            self.kill9();
            panic!("the server was still there {} s after SIGTERM", STOP_LIMIT.as_secs())
        };
        self.running = None;
        status
    }

    /// Starts the server again on the same data, ports and sockets; stops it first if it is running.
    ///
    /// # Panics
    /// If it does not end or does not start.
    #[track_caller]
    pub fn restart(&mut self) {
        if self.running.is_some() {
            self.terminate();
        }
        if let Err(error) = self.launch() {
            panic!("{error}");
        }
    }

    /// Starts a stopped server; after an error it is not running.
    ///
    /// # Errors
    /// If it ended or was not ready in time; the text contains the end of its log.
    pub fn try_restart(&mut self) -> Result<(), String> {
        self.launch()
    }

    /// Starts a stopped server without waiting for it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn restart_as_standby(&mut self) {
        if let Err(error) = self.spawn() {
            panic!("{error}");
        }
    }

    /// Waits until a server that was started as a standby, or that became one, is ready.
    ///
    /// # Panics
    /// If it ends, or is not ready in time.
    #[track_caller]
    pub fn await_owner(&mut self) {
        match self.await_ready(self.seen) {
            Ok(ready) => (self.ready, self.seen) = (Some(ready), self.log().len()),
            Err(reason) => panic!("amphora serve {reason}; its log:\n{}", tail(&self.log())),
        }
    }

    /// Forgets ready lines up to now: [`Server::await_owner`] waits for a later one.
    pub fn forget_ready(&mut self) {
        self.seen = self.log().len();
    }

    /// The address of its S3 port, also while it does not listen there.
    ///
    /// # Panics
    /// Never: each server has one.
    #[must_use]
    pub fn s3_address(&self) -> std::net::SocketAddr {
        let port = self.ports.iter().find(|(flag, _)| *flag == "--s3-listen");
        port.expect("a port for S3").1.address().into()
    }

    /// The answer of `/readyz`, with its head; `None` if there is none.
    #[must_use]
    pub fn readyz(&self) -> Option<String> {
        use std::io::Read as _;
        let address = self.ports.iter().find(|(flag, _)| *flag == "--http-listen")?.1.address();
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Starts a stopped server, and kills it with SIGKILL after this time, ready or not.
    ///
    /// # Panics
    /// If it cannot be started, or does not end within the limit.
    #[track_caller]
    pub fn start_and_kill9(&mut self, after: Duration) {
        if let Err(error) = self.spawn() {
            panic!("{error}");
        }
        std::thread::sleep(after);
        self.kill9();
    }

    /// Runs `amphora upgrade` to the same program; the server is ready then, with the same process id.
    ///
    /// # Panics
    /// If the command fails, or the process id changed.
    #[track_caller]
    pub fn upgrade(&mut self) {
        match child::run(&mut self.cli(["upgrade"]), START_LIMIT) {
            Ok(outcome) => drop(outcome.ok()),
            Err(error) => panic!("{error}"),
        }
        let ended = self.launcher.ended(Duration::ZERO);
        assert!(ended.is_none(), "the server ended at its upgrade: {ended:?}");
    }

    /// Kills the fd holder with SIGKILL, which ends its mounts once no server has them. Does nothing if there is none.
    pub fn end_holder(&self) {
        if let Some(pid) = holder_of(&self.home.socket("holder")) {
            // The holder may have ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    fn spawn(&mut self) -> Result<(), String> {
        self.seen = self.log().len();
        let pid = self.launcher.start(&self.command()?, &self.home.log())?;
        self.running = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        self.spawn()?;
        match self.await_ready(self.seen) {
            Ok(ready) => {
                (self.ready, self.seen) = (Some(ready), self.log().len());
                Ok(())
            }
            Err(reason) => {
                self.kill9();
                Err(format!("amphora serve {reason}; its log:\n{}", tail(&self.log())))
            }
        }
    }

    fn command(&self) -> Result<Command, String> {
        let program = tools::amphora()?;
        let mut command = match self.options.under.split_first() {
            None => Command::new(program),
            Some((wrapper, words)) => {
                let mut command = Command::new(wrapper);
                command.args(words).arg(program);
                command
            }
        };
        command.arg("serve").arg("--data-dir").arg(self.home.data_dir());
        for (flag, port) in &self.ports {
            command.arg(flag).arg(port.address().to_string());
        }
        for (flag, name) in [("--csi-endpoint", "csi"), ("--cosi-endpoint", "cosi"), ("--admin-endpoint", "admin")] {
            command.arg(flag).arg(unix(&self.home.socket(name)));
        }
        if self.options.split_csi {
            command.arg("--csi-node-endpoint").arg(unix(&self.home.socket("csi-node")));
        }
        if self.options.holder {
            command.arg("--holder-endpoint").arg(unix(&self.home.socket("holder")));
        } else {
            command.arg("--no-holder");
        }
        if let Some(Certificate { certificate, key, .. }) = &self.certificate {
            command.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        }
        if let Some(address) = self.volume() {
            command.arg("--volume-listen").arg(address);
        }
        // The delay is for a COSI controller, and none runs here.
        command.env("AMPHORA_COSI_ANSWER_DELAY", "off");
        command.args(&self.options.args).envs(self.options.envs.iter().cloned());
        command.current_dir(self.home.path());
        Ok(command)
    }

    /// Waits for the ready line after the first `begin` bytes of the log.
    fn await_ready(&mut self, begin: usize) -> Result<Ready, String> {
        let answer = child::wait_until(START_LIMIT, || {
            let ended = self.launcher.ended(Duration::ZERO);
            let log = self.log();
            // A line counts once it is complete.
            let lines = log.get(begin..).unwrap_or_default().split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let ready = lines.filter_map(Ready::parse).next_back().map(Ok);
            match ended {
                Some(status) => {
                    self.running = None;
                    Some(Err(format!("ended with {status}")))
                }
                None => ready,
            }
        });
        answer.unwrap_or_else(|| Err(format!("was not ready within {} s", START_LIMIT.as_secs())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
        self.end_holder();
        if let Some(image) = &self.image
            && !std::thread::panicking()
        {
            // If another process still uses the image, the removal of the home folder detaches it.
            let _ = image.unmount();
        }
        if std::thread::panicking() {
            // Written to the stream directly rather than by a macro, so that the test harness shows it unchanged.
            let (home, log) = (self.home.path().display().to_string(), self.log());
            let _ = writeln!(std::io::stderr(), "--- the server's folder, kept: {home}; its log:\n{}", tail(&log));
        }
    }
}

/// The process that listens at the socket of a holder. It has to be visible in the PID namespace of the tests.
fn holder_of(socket: &Path) -> Option<Pid> {
    let address = SocketAddrUnix::new(socket).ok()?;
    let client = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).ok()?;
    rustix::net::connect(&client, &address).ok()?;
    Some(rustix::net::sockopt::socket_peercred(&client).ok()?.pid)
}

fn unix(path: &Path) -> String {
    format!("unix://{}", path.display())
}

fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}
