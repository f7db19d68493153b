//! A network namespace with a link to this one: another machine, as far as the network is concerned.
//!
//! - Its only process sleeps, and ends with the value; the link ends with the namespace.
//! - Mounts made from there are visible here, since the mount namespace is the same.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::child;

/// The time limit of a command that sets up a link.
const LIMIT: Duration = Duration::from_secs(20);
/// How many networks are tried, since other programs may use some.
const TRIES: usize = 16;

static LAST: AtomicU32 = AtomicU32::new(0);

/// Another network namespace.
#[derive(Debug)]
pub struct Namespace {
    process: Child,
    /// The address of this side of the link.
    address: Ipv4Addr,
}

impl Namespace {
    /// A new namespace, linked with this one. Needs root.
    ///
    /// # Errors
    /// If the kernel or iproute2 refuses.
    pub fn new() -> Result<Self, String> {
        let mut command = Command::new("unshare");
        // It says when it is inside, and ends when its standard input does.
        command.args(["--net", "sh", "-c", "echo inside && exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let said = process.stdout.take().map(|out| {
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).map(|_| line)
        });
        if !matches!(said, Some(Ok(line)) if line == "inside\n") {
            let _ = process.kill();
            let _ = process.wait();
            return Err("unshare --net needs root".to_owned());
        }
        let mut namespace = Self { process, address: Ipv4Addr::UNSPECIFIED };
        for _ in 0..TRIES {
            match namespace.link() {
                Ok(()) => return Ok(namespace),
                Err(error) if error.contains("File exists") => {}
                Err(error) => return Err(error),
            }
        }
        Err(format!("no free network among {TRIES}"))
    }

    /// Makes the link, with an address at each end.
    fn link(&mut self) -> Result<(), String> {
        let number = std::process::id().wrapping_mul(97).wrapping_add(LAST.fetch_add(1, Ordering::Relaxed)) % 16_000;
        let near = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 213, 0, 0)) + number * 4 + 1);
        let far = Ipv4Addr::from(u32::from(near) + 1);
        let (name, peer) = (format!("amt{number}"), self.process.id().to_string());
        ip(&["link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &peer])?;
        ip(&["addr", "add", &format!("{near}/30"), "dev", &name])?;
        ip(&["link", "set", &name, "up"])?;
        for words in [
            &["addr", "add", &format!("{far}/30"), "dev", "eth0"][..],
            &["link", "set", "eth0", "up"],
            &["link", "set", "lo", "up"],
        ] {
            let mut command = self.command("ip");
            child::run(command.args(words), LIMIT).map(|outcome| drop(outcome.ok()))?;
        }
        self.address = near;
        Ok(())
    }

    /// The address of this side of the link, which programs inside reach.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command that runs inside.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.process.id())).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(mut input) = self.process.stdin.take() {
            let _ = input.flush();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    let outcome = child::run(Command::new("ip").args(words), LIMIT)?;
    if outcome.status.success() { Ok(()) } else { Err(outcome.to_string()) }
}
