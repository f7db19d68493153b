//! `cargo verify`: runs all checks, those that fail fastest first, and prints one line of totals.
//!
//! - It stops at the first step that fails and names it.
//! - CI runs exactly this; nothing is checked elsewhere.
//! - `--full MODULE` runs the end-to-end tests of one module alone, at sizes that take hours rather than minutes.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks on its streams")]

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use tests::amount::FULL;
use tests::skip::SKIPS_FILE;
use tests::tools::repo;
use tests::totals::Totals;

const USAGE: &str = "usage: cargo verify [--list] [--only STEP]... [--full MODULE]...";

/// One check: its name, its purpose, and its command.
struct Step {
    name: &'static str,
    about: &'static str,
    command: fn() -> Command,
}

const STEPS: [Step; 5] = [
    Step { name: "setup", about: "install what the tests need beside cargo", command: setup },
    Step { name: "fmt", about: "formatting", command: || cargo(&["fmt", "--all", "--check"]) },
    Step { name: "clippy", about: "lints", command: clippy },
    Step { name: "build", about: "the server that the end-to-end tests start", command: build },
    Step { name: "test", about: "all tests and doc tests", command: test },
];

/// The parsed arguments.
#[derive(Default)]
struct Chosen {
    steps: Vec<&'static Step>,
    /// Modules of the end-to-end tests, to be run at full size.
    full: Vec<String>,
}

fn main() -> ExitCode {
    let chosen = match choose(std::env::args().skip(1)) {
        Ok(chosen) => chosen,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for step in &chosen.steps {
        if let Err(reason) = run(step, &chosen.full) {
            eprintln!("verify: {} FAILED: {reason}", step.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The steps to run; none for `--list`, which prints the names here.
fn choose(mut args: impl Iterator<Item = String>) -> Result<Chosen, String> {
    let mut chosen = Chosen::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // The alias ends in `--`, and users may type a second one.
            "--" => {}
            "--list" => {
                STEPS.iter().for_each(|step| println!("{:<8}{}", step.name, step.about));
                return Ok(Chosen::default());
            }
            "--only" => {
                let name = args.next().ok_or("--only needs the name of a step; --list shows them")?;
                chosen.steps.push(step(&name)?);
            }
            "--full" => {
                chosen.full.push(args.next().ok_or("--full needs a module of tests/tests, like workloads")?);
            }
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    if chosen.steps.is_empty() {
        let needed = |step: &&Step| chosen.full.is_empty() || ["setup", "build", "test"].contains(&step.name);
        chosen.steps = STEPS.iter().filter(needed).collect();
    }
    Ok(chosen)
}

fn step(name: &str) -> Result<&'static Step, String> {
    let found = STEPS.iter().find(|step| step.name == name);
    found.ok_or_else(|| format!("no step is called {name:?}; --list shows them"))
}

fn run(step: &Step, full: &[String]) -> Result<(), String> {
    println!("verify: {} ({})", step.name, step.about);
    let start = Instant::now();
    let mut command = (step.command)();
    let mut totals = None;
    let status = if step.name == "test" {
        if !full.is_empty() {
            // One at a time and with output, because they report times.
            command.args(["--test", "all", "--"]).args(full).args(["--test-threads=1", "--nocapture"]).env(FULL, "1");
        }
        run_tests(&mut command, &mut totals)
    } else {
        command.status()
    };
    println!("verify: {} took {:.1} s", step.name, start.elapsed().as_secs_f32());
    if let Some(totals) = totals {
        println!("{totals}");
    }
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?} does not run: {error}")),
    }
}

/// Passes the output on, prints the notices of skipped tests at the end, and counts.
fn run_tests(command: &mut Command, totals: &mut Option<Totals>) -> io::Result<ExitStatus> {
    let skips_file = repo_target().join("verify-skips");
    // Removes the file of an earlier run, if there is one.
    let _ = std::fs::remove_file(&skips_file);
    command.env(SKIPS_FILE, &skips_file).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let counted = totals.insert(Totals::default());
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counted.add_line(&line);
    }
    let status = child.wait()?;
    let skips = std::fs::read_to_string(&skips_file).unwrap_or_default();
    counted.move_skips(skips.lines().count() as u64);
    print!("{skips}");
    Ok(status)
}

fn setup() -> Command {
    Command::new(repo().join("tests/setup.sh"))
}

fn clippy() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--ignore-rust-version", "--", "-D", "warnings"])
}

/// Builds all packages at once. For a smaller selection cargo would choose other features of the dependencies, and
/// compile most of them a second time for the tests.
fn build() -> Command {
    cargo(&["build", "--workspace", "--all-targets", "--ignore-rust-version"])
}

fn test() -> Command {
    // With doc tests, and without stopping at the first binary that fails, so that the totals cover all tests.
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--ignore-rust-version"]);
    if std::env::var_os("AMPHORA_BIN").is_none() {
        command.env("AMPHORA_BIN", repo_target().join("amphora"));
    }
    command
}

/// The cargo that runs this program, in the repository.
fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(repo());
    // `cargo run` sets these for us; build scripts that watch them would run again and again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name.as_ref());
        }
    }
    command
}

/// The folder that this program was built into, which is where the server is as well.
fn repo_target() -> PathBuf {
    let here = std::env::current_exe().ok();
    here.as_deref().and_then(Path::parent).map_or_else(|| repo().join("target/debug"), Path::to_path_buf)
}
