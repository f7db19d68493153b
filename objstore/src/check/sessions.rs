//! Check of mount session records: each can be read.
//!
//! - Records may be left of a session that ended with its server: the next opening removes them. That is not damage.

use super::{Checked, Report};
use crate::error::Result;
use crate::record::key::tag;
use crate::record::session::{Ended, Replay, Session, Undelivered};

/// Checks all.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::SESSION], |pair| {
        if let Some(session) = store.take_or_quarantine::<Session>("a mount's session", pair, report) {
            report.sessions += 1;
            if session.root == 0 || session.bucket == 0 {
                report.problem(format!("a mount's session of \"{}\": it has no bucket and root", session.name));
            }
        }
        Ok(())
    })?;
    store.each(&[tag::REPLAY], |pair| {
        store.take_or_quarantine::<Replay>("a request of a mount", pair, report);
        Ok(())
    })?;
    store.each(&[tag::OWED], |pair| {
        store.take_or_quarantine::<Undelivered>("an undelivered cache invalidation", pair, report);
        Ok(())
    })?;
    store.each(&[tag::ENDED], |pair| {
        store.take_or_quarantine::<Ended>("an ended session of another machine", pair, report);
        Ok(())
    })
}
