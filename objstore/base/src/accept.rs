//! Errors of accept(2): after some of them a listener goes on.

use std::io;
use std::time::Duration;

/// The pause after the system had no descriptor or memory for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits a moment where accepting may succeed again soon: a client disconnected, or descriptors or memory ran out. `what`
/// names the connections for the log.
///
/// # Errors
/// The error itself, if the listener cannot go on.
pub async fn recover(error: io::Error, what: &str) -> io::Result<()> {
    if is_exhausted(&error) {
        tracing::warn!(%error, "cannot accept {what}; raise the limit of open files");
    } else if !is_gone(&error) {
        return Err(error);
    }
    tokio::time::sleep(PAUSE).await;
    Ok(())
}

fn is_exhausted(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    matches!(error.raw_os_error(), Some(ENOMEM | ENFILE | EMFILE | ENOBUFS))
}

fn is_gone(error: &io::Error) -> bool {
    [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted]
        .contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_goes_on_after_errors_that_pass_and_ends_with_others() {
        for passing in [12, 23, 24, 105, 103, 104, 4] {
            assert!(recover(io::Error::from_raw_os_error(passing), "a connection").await.is_ok(), "{passing}");
        }
        for lasting in [9, 22, 88] {
            assert!(recover(io::Error::from_raw_os_error(lasting), "a connection").await.is_err(), "{lasting}");
        }
    }
}
