//! `amphora check`

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::output::{Printer, Row};
use crate::failure::{Failure, with_causes};

/// The store to verify.
#[derive(Debug, Args)]
pub struct Check {
    /// Folder of a store that no server has open
    data_dir: PathBuf,
    /// Mend what can be mended
    #[arg(long)]
    repair: bool,
}

/// What a check found, as it is printed.
#[derive(Serialize)]
struct Shown {
    problems: Vec<String>,
}

impl Row for Shown {
    const HEADERS: &'static [&'static str] = &["PROBLEMS"];

    fn cells(&self) -> Vec<String> {
        vec![self.problems.join("\n")]
    }
}

impl Check {
    /// Verifies; problems are printed and make the command fail.
    pub(super) fn run(&self, printer: &mut Printer) -> Result<(), Failure> {
        if self.repair {
            return Err(Failure::failed(
                "--repair is not offered yet: run `amphora check` without it, and restore a backup",
            ));
        }
        let report = objstore::check::run(&self.data_dir);
        let report =
            report.map_err(|e| Failure::failed(format!("{}: {}", self.data_dir.display(), with_causes(&e))))?;
        let count = report.problems.len();
        printer.one(&Shown { problems: report.problems })?;
        if count == 0 { Ok(()) } else { Err(Failure::failed(format!("{count} problems found"))) }
    }
}
