//! `amphora mount trace`

use std::path::Path;
use std::time::Duration;

use proto::amphora::admin::v1 as admin;
use serde::Serialize;

use crate::cli::client::{Client, absolute, answer, next};
use crate::cli::output::Printer;
use crate::failure::Failure;

/// The printed form of a call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallRow {
    operation: String,
    inode: u64,
    path: Option<String>,
    name: Option<String>,
    took_ns: u64,
    errno: i32,
    missed: u64,
}

impl From<admin::WatchedCall> for CallRow {
    fn from(call: admin::WatchedCall) -> Self {
        let admin::WatchedCall { operation, inode, path, name, took_ns, errno, missed } = call;
        Self { operation, inode, path, name, took_ns, errno, missed }
    }
}

impl CallRow {
    /// One line in the style of strace(1): operation, path, name, result, duration.
    fn line(&self) -> String {
        let missed = if self.missed > 0 { format!("({} calls were left out)\n", self.missed) } else { String::new() };
        let ended = if self.errno == 0 { "0".to_owned() } else { error_text(self.errno) };
        let path = self.path.as_deref().map_or("(no name)".to_owned(), |path| format!("/{path}"));
        let name = self.name.as_deref().map_or_else(String::new, |name| format!(" {name:?}"));
        let took = Duration::from_nanos(self.took_ns);
        format!("{missed}{:<15} {path} ({}){name} = {ended} <{took:.1?}>", self.operation, self.inode)
    }
}

/// The system's text for an error, without the number that the standard library appends.
fn error_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Prints calls until the mount ends or the user interrupts.
pub(super) async fn run(client: &mut Client, printer: &mut Printer, dir: &Path) -> Result<(), Failure> {
    let mut calls = answer(client.mounts.watch_mount(admin::WatchMountRequest { dir: absolute(dir)? }).await)?;
    loop {
        let Some(call) = next(&mut calls).await?.map(CallRow::from) else { return Ok(()) };
        printer.line(&call, &call.line())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_line() {
        let call = |errno, path: Option<&str>, missed| CallRow {
            operation: "lookup".into(),
            inode: 7,
            path: path.map(str::to_owned),
            name: (errno == 0).then(|| "a \"name\"\n".to_owned()),
            took_ns: 12_300,
            errno,
            missed,
        };
        assert_eq!(call(0, Some("a/b"), 0).line(), r#"lookup          /a/b (7) "a \"name\"\n" = 0 <12.3µs>"#);
        let line = call(2, None, 4).line();
        assert_eq!(line, "(4 calls were left out)\nlookup          (no name) (7) = No such file or directory <12.3µs>");
    }
}
