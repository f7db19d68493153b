//! Skipping a test with a reason that `cargo verify` shows.
//!
//! - The test harness hides the output of a passing test, so the notice also goes to the file in the environment
//!   variable `AMPHORA_SKIPS`; `cargo verify` sets it, counts the notices and prints them last.

use std::fs::OpenOptions;
use std::io::Write;

/// The environment variable that names the file for skip notices.
pub const SKIPS_FILE: &str = "AMPHORA_SKIPS";

/// Ends the calling test as skipped. Takes a reason, like `format!`: what is missing, and how to get it.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        $crate::skip::notice(module_path!(), &format!($($reason)+));
        return;
    }};
}

/// The value of an `Ok`; ends the calling test as skipped on `Err`, with the error as the reason.
#[macro_export]
macro_rules! need {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => $crate::skip!("{reason}"),
        }
    };
}

/// Writes one line `SKIP: <test>: <reason>`. `module` names the test when the thread does not.
pub fn notice(module: &str, reason: &str) {
    // The test harness names each test's thread after it, except when it runs them all on the main thread.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or(module);
    let line = format!("SKIP: {test}: {}\n", reason.replace('\n', " "));
    // A notice that cannot be written must not fail the test.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(SKIPS_FILE)
        && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
    {
        // One write in append mode, so that lines of parallel tests do not mix.
        let _ = file.write_all(line.as_bytes());
    }
}
