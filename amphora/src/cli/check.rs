//! `amphora check`

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::Args;
use objstore::check::{Options, Phase, Progress, Report};
use serde::Serialize;

use super::check_elsewhere::Elsewhere;
use super::output::{Printer, Row, listed, size_text};
use super::progress::Line;
use crate::config::Env;
use crate::failure::{Failure, with_causes};

/// The store to verify.
#[derive(Debug, Args)]
pub struct Check {
    /// Data folder of the store; no server may run on it
    #[arg(required_unless_present = "metadata_url")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    /// Repair counts and usage, and quarantine what cannot be repaired; may be interrupted and run again
    #[arg(long)]
    repair: bool,
    /// Verify the records alone, without reading content
    #[arg(long)]
    metadata_only: bool,
    /// Master key file of the server (also: AMPHORA_MASTER_KEY_FILE) [default: master.key in the folder]
    #[arg(long, value_name = "FILE")]
    master_key_file: Option<PathBuf>,
}

/// The printed result of a check.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckReport {
    clean: bool,
    problems: Vec<String>,
    unlisted_problems: u64,
    quarantined: Vec<String>,
    repaired: Vec<String>,
    unlisted_repairs: u64,
    accounts: u64,
    buckets: u64,
    snapshots: u64,
    inodes: u64,
    uploads: u64,
    blobs: u64,
    verified_bytes: u64,
    unnamed_files: u64,
    kept_blobs: u64,
}

impl From<Report> for CheckReport {
    fn from(report: Report) -> Self {
        Self {
            clean: report.clean(),
            problems: report.problems,
            unlisted_problems: report.unlisted,
            quarantined: report.quarantined,
            repaired: report.repaired,
            unlisted_repairs: report.unlisted_repairs,
            accounts: report.accounts,
            buckets: report.buckets,
            snapshots: report.snapshots,
            inodes: report.inodes,
            uploads: report.uploads,
            blobs: report.blobs,
            verified_bytes: report.verified_bytes,
            unnamed_files: report.unnamed_files,
            kept_blobs: report.kept_blobs,
        }
    }
}

impl Row for CheckReport {
    const HEADERS: &'static [&'static str] = &[
        "ACCOUNTS",
        "BUCKETS",
        "SNAPSHOTS",
        "INODES",
        "UPLOADS",
        "BLOBS",
        "VERIFIED",
        "UNNAMED FILES",
        "REPAIRED",
        "QUARANTINED",
        "PROBLEMS",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.accounts.to_string(),
            self.buckets.to_string(),
            self.snapshots.to_string(),
            self.inodes.to_string(),
            self.uploads.to_string(),
            self.blobs.to_string(),
            size_text(self.verified_bytes),
            self.unnamed_files.to_string(),
            listed(&self.repaired, self.repaired.len() as u64 + self.unlisted_repairs),
            listed(&self.quarantined, self.quarantined.len() as u64),
            listed(&self.problems, self.problems.len() as u64 + self.unlisted_problems),
        ]
    }
}

impl Check {
    /// Verifies the store; damage is printed and makes the command fail.
    pub(super) fn run(&self, env: Env<'_>, printer: &mut Printer) -> Result<(), Failure> {
        let named = || env("AMPHORA_MASTER_KEY_FILE").filter(|file| !file.is_empty()).map(PathBuf::from);
        let master_key = self.master_key_file.clone().or_else(named);
        let line = RefCell::new(Line::new());
        let progress = |at: Progress| match at.phase {
            Phase::Content => line.borrow_mut().show_bytes("check: content", (at.done, at.total), ""),
            _ => line.borrow_mut().show(&|| text(at)),
        };
        let options = Options {
            content: !self.metadata_only,
            repair: self.repair,
            master_key: master_key.as_deref(),
            progress: &progress,
        };
        let report = match (&self.data_dir, &self.elsewhere.metadata_url) {
            (Some(dir), _) => objstore::check::run(dir, &options),
            (None, Some(url)) => {
                return self.elsewhere.run(url, env, &options).and_then(|report| {
                    drop(line);
                    shown_elsewhere(report, printer)
                });
            }
            (None, None) => return Err(Failure::usage("name a data folder, or --metadata-url and --content-url")),
        };
        drop(line);
        let shown = CheckReport::from(report.map_err(|error| Failure::failed(with_causes(&error)))?);
        printer.one(&shown)?;
        let dir = self.data_dir.as_deref().unwrap_or(Path::new("")).display();
        match (shown.clean, shown.quarantined.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(Failure::failed(format!(
                "the store {dir} is intact except for the quarantined files: upload them again, delete them, or restore them from a backup"
            ))),
            (false, _) if self.repair => Err(Failure::failed(format!(
                "the store {dir} has damage that --repair cannot fix: follow the list above, or restore from a backup"
            ))),
            (false, _) => Err(Failure::failed(format!(
                "the store {dir} is damaged: repair it with `amphora check {dir} --repair`, or restore the listed files from a backup"
            ))),
        }
    }
}

/// Prints the result of a store without a data folder.
fn shown_elsewhere(report: Report, printer: &mut Printer) -> Result<(), Failure> {
    let shown = CheckReport::from(report);
    printer.one(&shown)?;
    match (shown.clean, shown.quarantined.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Failure::failed(
            "the store is intact except for the quarantined files: upload them again, delete them, or restore them from a \
             backup",
        )),
        (false, _) => Err(Failure::failed(
            "the store is damaged: restore the listed files from a backup, or the objects of the bucket from its versions",
        )),
    }
}

fn text(at: Progress) -> String {
    match at.phase {
        Phase::Replay => format!("check: replaying the log, batch {} of {}", at.done, at.total),
        Phase::Objects if at.done == 0 => format!("check: listing the bucket, {} objects", at.total),
        Phase::Objects => format!("check: objects of {} blobs", at.done),
        Phase::Trees => format!("check: buckets and snapshots {} of {}", at.done, at.total),
        Phase::Records => "check: records".to_owned(),
        Phase::Content => "check: content".to_owned(),
        Phase::Repair => format!("repair: {} of {}", at.done, at.total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_listed() {
        let report = Report { problems: vec!["blob 7 is short".into()], unlisted: 2, ..Report::default() };
        let cells = CheckReport::from(report).cells();
        assert_eq!(cells.last().map(String::as_str), Some("3\n  blob 7 is short"));
        assert_eq!(CheckReport::from(Report::default()).cells().last().map(String::as_str), Some("none"));
    }
}
