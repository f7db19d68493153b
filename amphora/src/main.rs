//! The `amphora` program.

use std::io::Write as _;
use std::process::ExitCode;

use amphora::failure::Failure;

fn main() -> ExitCode {
    // Done first, because no other thread may read the environment meanwhile.
    let environment = amphora::process::Environment::take();
    let failure = match amphora::cli::run(std::env::args_os(), &|name| environment.get(name)) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    match &failure {
        // Help and version go to stdout, all else to stderr, with clap's colours. A closed stream has no reader, so
        // errors are ignored.
        Failure::Clap(error) => drop(error.print()),
        _ => drop(writeln!(std::io::stderr(), "amphora: {failure}")),
    }
    failure.exit_code()
}
