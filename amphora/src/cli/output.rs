//! Output of commands: tables for people, or JSON with stable field names.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::config::Size;
use crate::failure::Failure;

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs: camelCase fields, sizes in bytes, times in RFC 3339.
    Json,
}

/// A printable record: a row of a table, lines, or a JSON object.
pub(super) trait Row: Serialize {
    /// The headers of the columns.
    const HEADERS: &'static [&'static str];

    /// The values of the columns.
    fn cells(&self) -> Vec<String>;
}

/// Prints in the requested format.
pub(super) struct Printer {
    format: Format,
    out: Box<dyn Write>,
    /// The width of the terminal in characters, if the output is one.
    width: Option<usize>,
}

impl Printer {
    pub(super) fn new(format: Format, out: impl Write + 'static) -> Self {
        Self { format, out: Box::new(out), width: None }
    }

    /// A printer to stdout; tables fit the terminal, if it is one.
    pub(super) fn to_stdout(format: Format) -> Self {
        let size = rustix::termios::tcgetwinsize(std::io::stdout());
        let width = size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Self { width, ..Self::new(format, std::io::stdout()) }
    }

    /// Whether the output is for people, who may get further hints.
    pub(super) fn is_for_people(&self) -> bool {
        self.format == Format::Text
    }

    /// Prints many records: a table, or a JSON array.
    pub(super) fn list<R: Row>(&mut self, rows: &[R]) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(&rows),
            Format::Text => {
                let rows: Vec<_> = rows.iter().map(Row::cells).collect();
                self.raw(table(R::HEADERS, &rows, self.width).as_bytes())
            }
        }
    }

    /// Prints one record: a line per field, or a JSON object.
    pub(super) fn one<R: Row>(&mut self, row: &R) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.json(row),
            Format::Text => {
                let fields = R::HEADERS.iter().zip(row.cells());
                let lines: Vec<_> =
                    fields.map(|(name, value)| vec![format!("{}:", name.to_lowercase()), value]).collect();
                self.raw(aligned(&lines, None).as_bytes())
            }
        }
    }

    /// Prints that an operation succeeded: a line for people, nothing for programs, which have the exit status.
    pub(super) fn done(&mut self, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Json => Ok(()),
            Format::Text => self.raw(format!("{text}\n").as_bytes()),
        }
    }

    /// Prints one item of a stream: a line, or a JSON object on its own line.
    pub(super) fn line(&mut self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Text => self.raw(format!("{text}\n").as_bytes()),
            Format::Json => {
                let json = serde_json::to_string(value).map_err(|error| Failure::failed(error.to_string()))?;
                self.raw(format!("{json}\n").as_bytes())
            }
        }
    }

    /// Prints raw bytes, in either format.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            // The reader stopped reading, as `head` does; that is not an error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::failed(format!("the result cannot be written: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|error| Failure::failed(error.to_string()))?;
        text.push(b'\n');
        self.raw(&text)
    }
}

fn table(headers: &[&str], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut all = vec![headers.iter().map(|header| (*header).to_owned()).collect::<Vec<_>>()];
    all.extend(rows.iter().cloned());
    aligned(&all, width)
}

/// The space between two columns.
const GAP: &str = "  ";
/// The least width of a truncated column.
const NARROWEST: usize = 8;

/// Columns as wide as their widest cell. If a line would exceed `limit` characters, the widest columns are truncated.
/// An empty cell is shown as `-`.
fn aligned(rows: &[Vec<String>], limit: Option<usize>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count().max(1)).max();
    let mut widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    if let Some(limit) = limit {
        fit(&mut widths, limit);
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let cell = if limit.is_some() { cut(cell, *width) } else { cell.clone() };
            format!("{:width$}", shown(&cell))
        });
        format!("{}\n", cells.collect::<Vec<_>>().join(GAP).trim_end())
    };
    rows.iter().map(line).collect()
}

/// A cell with control characters escaped, which a terminal would execute.
fn shown(cell: &str) -> String {
    let escaped = |letter: char| match letter.is_control() && letter != '\n' {
        true => letter.escape_default().collect::<String>(),
        false => letter.to_string(),
    };
    if cell.is_empty() { "-".to_owned() } else { cell.chars().map(escaped).collect() }
}

/// Narrows the widest columns until a line fits.
fn fit(widths: &mut [usize], limit: usize) {
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > limit
        && let Some(widest) = widths.iter_mut().max()
        && *widest > NARROWEST
    {
        *widest -= 1;
    }
}

/// A text truncated to the width of its column.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A time, for people and programs alike; empty if it is out of range.
pub(super) fn time_text(unix_ms: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

/// A count, followed by each listed item on a line of its own.
pub(super) fn listed(lines: impl IntoIterator<Item = impl Display>, count: u64) -> String {
    let lines: String = lines.into_iter().map(|line| format!("\n  {line}")).collect();
    if count == 0 { "none".to_owned() } else { format!("{count}{lines}") }
}

/// A size for people.
pub(super) fn size_text(bytes: u64) -> String {
    Size { bytes }.to_string()
}

/// An optional limit for people.
pub(super) fn limit_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "none".to_owned(), size_text)
}

/// `None` for an empty text, which stands for an absent value on the wire.
pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// The output that a printer wrote.
    #[derive(Clone, Default)]
    pub(in crate::cli) struct Capture(Arc<Mutex<Vec<u8>>>);

    impl Capture {
        pub(in crate::cli) fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
        }
    }

    impl Write for Capture {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The field names of a row's JSON object, in order.
    pub(in crate::cli) fn json_fields<R: Row>(row: &R) -> Vec<String> {
        let capture = Capture::default();
        Printer::new(Format::Json, capture.clone()).one(row).expect("printed");
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&capture.text()).expect("an object");
        object.keys().cloned().collect()
    }

    #[derive(Serialize)]
    struct Jar {
        name: &'static str,
        #[serde(rename = "sizeBytes")]
        size_bytes: u64,
    }

    impl Row for Jar {
        const HEADERS: &'static [&'static str] = &["NAME", "SIZE"];

        fn cells(&self) -> Vec<String> {
            vec![self.name.to_owned(), size_text(self.size_bytes)]
        }
    }

    const JARS: [Jar; 2] = [Jar { name: "dolium", size_bytes: 2048 }, Jar { name: "", size_bytes: 1 }];

    #[test]
    fn text_is_an_aligned_table() {
        let capture = Capture::default();
        Printer::new(Format::Text, capture.clone()).list(&JARS).expect("printed");
        assert_eq!(capture.text(), "NAME    SIZE\ndolium  2Ki\n-       1\n");
    }

    #[test]
    fn a_table_fits_the_terminal_and_its_widest_columns_give_way() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["photos", "alice", "/a/very/long/path/of/a/user/who/likes/them"])];
        let all = table(&["NAME", "OWNER", "PATH"], &rows, None);
        assert!(all.lines().any(|line| line.chars().count() > 50), "{all}");
        let fitted = table(&["NAME", "OWNER", "PATH"], &rows, Some(40));
        assert_eq!(fitted.lines().map(|line| line.chars().count()).max(), Some(40), "{fitted}");
        assert!(fitted.contains("photos  alice  /a/very") && fitted.contains('…'), "{fitted}");
        let narrow = table(&["NAME", "OWNER", "PATH"], &rows, Some(5));
        assert!(narrow.contains("photos  alice  /a/very…"), "{narrow}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(shown("a\x1b[2Jb\rc\nd"), "a\\u{1b}[2Jb\\rc\nd");
    }

    #[test]
    fn json_keeps_the_field_names() {
        let capture = Capture::default();
        Printer::new(Format::Json, capture.clone()).list(&JARS).expect("printed");
        let value: serde_json::Value = serde_json::from_str(&capture.text()).expect("JSON");
        assert_eq!(value, serde_json::json!([{"name": "dolium", "sizeBytes": 2048}, {"name": "", "sizeBytes": 1}]));
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(time_text(1_000_000_000_123), "2001-09-09T01:46:40.123Z");
    }
}
