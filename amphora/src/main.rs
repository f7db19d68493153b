//! The `amphora` program.

use std::io::Write as _;
use std::process::ExitCode;

use amphora::failure::Failure;

fn main() -> ExitCode {
    // First of all: no other thread may look at the environment meanwhile.
    let environment = amphora::process::Environment::take();
    let failure = match amphora::cli::run(std::env::args_os(), &|name| environment.get(name)) {
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
