//! The `amphora` program.

use std::io::Write as _;
use std::process::ExitCode;

use amphora::failure::Failure;

fn main() -> ExitCode {
    let failure = match amphora::cli::run(std::env::args_os(), &|name| std::env::var_os(name)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    match &failure {
        // Help and version go to stdout, the rest to stderr, with clap's own colours. A stream that is closed has no
        // reader to be told.
        Failure::Clap(error) => drop(error.print()),
        _ => drop(writeln!(std::io::stderr(), "amphora: {failure}")),
    }
    failure.exit_code()
}
