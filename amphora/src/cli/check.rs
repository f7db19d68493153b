//! `amphora check`

use std::path::PathBuf;

use clap::Args;
use objstore::check::Report;
use serde::Serialize;

use super::output::{Printer, Row, size_text};
use crate::failure::{Failure, with_causes};

/// The store to verify.
#[derive(Debug, Args)]
pub struct Check {
    /// Folder of a store that no server has open
    data_dir: PathBuf,
    /// Mend what can be mended (not offered yet)
    #[arg(long)]
    repair: bool,
}

/// What a check found, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    clean: bool,
    problems: Vec<String>,
    unlisted_problems: u64,
    buckets: u64,
    snapshots: u64,
    inodes: u64,
    blobs: u64,
    verified_bytes: u64,
    unnamed_files: u64,
}

impl From<Report> for Shown {
    fn from(report: Report) -> Self {
        Self {
            clean: report.clean(),
            problems: report.problems,
            unlisted_problems: report.unlisted,
            buckets: report.buckets,
            snapshots: report.snapshots,
            inodes: report.inodes,
            blobs: report.blobs,
            verified_bytes: report.verified_bytes,
            unnamed_files: report.unnamed_files,
        }
    }
}

impl Row for Shown {
    const HEADERS: &'static [&'static str] =
        &["BUCKETS", "SNAPSHOTS", "INODES", "BLOBS", "VERIFIED", "UNNAMED FILES", "PROBLEMS"];

    fn cells(&self) -> Vec<String> {
        let count = self.problems.len() as u64 + self.unlisted_problems;
        let listed: String = self.problems.iter().map(|problem| format!("\n  {problem}")).collect();
        let problems = if self.clean { "none".to_owned() } else { format!("{count}{listed}") };
        vec![
            self.buckets.to_string(),
            self.snapshots.to_string(),
            self.inodes.to_string(),
            self.blobs.to_string(),
            size_text(self.verified_bytes),
            self.unnamed_files.to_string(),
            problems,
        ]
    }
}

impl Check {
    /// Verifies; a problem is printed and makes the command fail.
    pub(super) fn run(&self, printer: &mut Printer) -> Result<(), Failure> {
        if self.repair {
            let advice = "run `amphora check` without it, and bring back what is damaged from a backup";
            return Err(Failure::failed(format!("--repair is not offered yet: {advice}")));
        }
        let report = objstore::check::run(&self.data_dir);
        let shown = Shown::from(report.map_err(|error| Failure::failed(with_causes(&error)))?);
        printer.one(&shown)?;
        if shown.clean {
            return Ok(());
        }
        let dir = self.data_dir.display();
        Err(Failure::failed(format!("the store {dir} is damaged: bring back what is listed from a backup")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_listed() {
        let report = Report { problems: vec!["blob 7 is short".into()], unlisted: 2, ..Report::default() };
        let cells = Shown::from(report).cells();
        assert_eq!(cells.last().map(String::as_str), Some("3\n  blob 7 is short"));
        assert_eq!(Shown::from(Report::default()).cells().last().map(String::as_str), Some("none"));
    }
}
