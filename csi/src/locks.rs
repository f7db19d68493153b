//! Locks on names of volumes and targets, which never wait.
//!
//! - A locked name is refused with ABORTED at once, after which the sidecars retry (CSI v1.12, Concurrency).

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tonic::Status;

/// The names locked at present.
#[derive(Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<HashSet<String>>>);

/// Locks a name until dropped.
#[must_use = "the name is free again once this is dropped"]
#[derive(Debug)]
pub(crate) struct Guard {
    locks: Locks,
    name: String,
}

impl Locks {
    /// Locks `name`, or returns ABORTED if another call has locked it.
    pub(crate) fn hold(&self, name: &str) -> Result<Guard, Status> {
        match self.0.lock().insert(name.to_owned()) {
            true => Ok(Guard { locks: self.clone(), name: name.to_owned() }),
            false => Err(Status::aborted(format!("another call for \"{name}\" is in progress; try again"))),
        }
    }
}

impl std::fmt::Debug for Locks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Locks")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.locks.0.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_name_is_refused_until_it_is_dropped() {
        let locks = Locks::default();
        let guard = locks.hold("a").unwrap();
        assert_eq!(locks.hold("a").unwrap_err().code(), tonic::Code::Aborted);
        let _other = locks.hold("b").unwrap();
        drop(guard);
        assert!(locks.hold("a").is_ok());
    }
}
