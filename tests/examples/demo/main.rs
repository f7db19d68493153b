//! `cargo demo`: walks through the features on a new store, one line per step, over the endpoints that Kubernetes and
//! S3 clients use.
//!
//! - The server is the built binary; SIGTERM ends it, and its folder is removed when the demo ends.
//! - Without root or `/dev/fuse` mounting is impossible: the demo says so and shows only the S3 steps.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on its streams")]

mod cosi;
mod csi;
mod s3;
mod steps;

use std::process::{Command, ExitCode};

use tests::server::{Options, Server};
use tests::tools::root_and_fuse;

/// Why a step failed.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let result = build().and_then(|()| Ok(Options::default().try_start()?)).and_then(|server| {
        let result = runtime.block_on(run_steps(&server));
        end(server, result)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> ExitCode {
    eprintln!("demo: {failure}");
    ExitCode::FAILURE
}

/// Builds the server, which cargo does not build for an example.
fn build() -> Result<(), Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--ignore-rust-version", "--package", "amphora"])
        .current_dir(tests::tools::repo())
        .status()?;
    if status.success() { Ok(()) } else { Err("the server does not build".into()) }
}

async fn run_steps(server: &Server) -> Result<(), Failure> {
    step("server", &format!("a fresh store; S3 at {}, COSI and CSI on Unix sockets", server.s3()));
    match root_and_fuse() {
        Ok(()) => steps::with_mounts(server).await,
        Err(reason) => {
            println!("          this machine cannot mount, so only the S3 steps are shown: {reason}");
            steps::without_mounts(server).await
        }
    }
}

/// Ends the server; an error of the steps takes precedence over an error of the end.
fn end(mut server: Server, result: Result<(), Failure>) -> Result<(), Failure> {
    if result.is_err() {
        eprintln!("the server's log:\n{}", server.log());
    }
    let status = server.terminate();
    result?;
    if !status.success() {
        return Err(format!("the server ended with {status} on SIGTERM").into());
    }
    step("server", "ended by SIGTERM, its folder removed");
    Ok(())
}

/// Prints that a step succeeded, and which endpoint performed it.
fn step(who: &str, what: &str) {
    println!("{who:<8}  {what}");
}

/// Fails unless `found` is `expected`.
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{what}: found {found:?}, expected {expected:?}").into()) }
}
