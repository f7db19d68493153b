//! `amphora scrub`

use clap::Args;
use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use super::client::{Client, answer, next};
use super::output::{Printer, Row, listed, time_text};
use super::progress::Line;
use crate::config::Size;
use crate::failure::Failure;

/// Verify the checksums of all content now, or follow the pass that runs. The pass continues if this command is
/// interrupted.
#[derive(Debug, Args)]
pub struct Scrub {
    /// Read limit per second [default: --scrub-rate of the server]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
}

/// The placeholder for names of damaged content, which are found only by reading all records.
const UNNAMED: &str = "unknown objects; stop the server and run `amphora check` to list them";

/// The printed form of damaged content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Damaged {
    owners: Vec<String>,
    reason: String,
    found_at: String,
}

impl From<admin::DamagedContent> for Damaged {
    fn from(damaged: admin::DamagedContent) -> Self {
        Self { owners: damaged.owners, reason: damaged.reason, found_at: time_text(damaged.found_unix_ms) }
    }
}

impl Damaged {
    /// One line of text.
    pub(super) fn text(&self) -> String {
        let who = if self.owners.is_empty() { UNNAMED.to_owned() } else { self.owners.join(", ") };
        format!("{who}: {} (found {})", self.reason, self.found_at)
    }
}

/// The printed result of a scrub.
#[derive(Serialize)]
struct ScrubReport {
    damaged: Vec<Damaged>,
}

impl Row for ScrubReport {
    const HEADERS: &'static [&'static str] = &["DAMAGED"];

    fn cells(&self) -> Vec<String> {
        vec![listed(self.damaged.iter().map(Damaged::text), self.damaged.len() as u64)]
    }
}

impl Scrub {
    pub(super) async fn run(self, client: &mut Client, printer: &mut Printer) -> Result<(), Failure> {
        let bytes_per_second = self.rate.map(|rate| rate.bytes);
        let mut told = answer(client.scrub(admin::ScrubRequest { bytes_per_second }).await)?;
        let mut line = Line::new();
        loop {
            let Some(next) = next(&mut told).await? else {
                return Err(Failure::failed("the server stopped; the scrub continues when it is started again"));
            };
            if next.done {
                drop(line);
                let shown = ScrubReport { damaged: next.damaged.into_iter().map(Damaged::from).collect() };
                printer.one(&shown)?;
                return match shown.damaged.len() {
                    0 => Ok(()),
                    _ => Err(Failure::failed(
                        "content does not match its checksum: upload the object again, delete it, or restore it from a backup",
                    )),
                };
            }
            line.show_bytes("scrub", (next.done_bytes, next.total_bytes), "");
        }
    }
}
