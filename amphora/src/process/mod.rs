//! The interface of this process to other processes: `notify` sends its state to systemd, `passed_sockets` passes its
//! listening sockets on in an upgrade, `program` is the program file that an upgrade starts. This file keeps secrets
//! out of the environment and core dumps.
//!
//! - Secrets are removed from the environment before anything else runs: `/proc/PID/environ` shows the memory that the
//!   kernel filled, which is overwritten, and no child or next program inherits them.
//! - A process that holds keys writes no core dump, and other processes of its user may not inspect it (ptrace(2));
//!   root may. Each program sets this for itself, because exec(2) resets it.

mod notify;
mod passed_sockets;
mod program;

use std::ffi::{CStr, OsString, c_char};
use std::os::unix::ffi::OsStringExt as _;

use rustix::process::{DumpableBehavior, Resource, getrlimit, set_dumpable_behavior, setrlimit};
use zeroize::{Zeroize as _, Zeroizing};

pub(crate) use notify::Notify;
pub(crate) use passed_sockets::PassedSockets;
pub(crate) use program::Program;

/// Looks up a variable of the environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variables that hold a secret or are useless without it. An upgrade passes on neither.
const SECRET: [&CStr; 2] = [c"AMPHORA_ROOT_ACCESS_KEY_ID", c"AMPHORA_ROOT_SECRET_ACCESS_KEY"];

/// The environment at the start of this process.
pub struct Environment {
    /// The variables that were removed.
    taken: Vec<(&'static str, Zeroizing<Vec<u8>>)>,
}

impl Environment {
    /// Removes the secrets from the environment. Must be called once, before other threads exist.
    #[must_use]
    pub fn take() -> Self {
        let taken = SECRET.into_iter().filter_map(|name| Some((name.to_str().ok()?, take(name)?)));
        Self { taken: taken.collect() }
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<OsString> {
        let taken = self.taken.iter().find(|(known, _)| *known == name);
        taken.map_or_else(|| std::env::var_os(name), |(_, value)| Some(OsString::from_vec(value.to_vec())))
    }
}

fn take(name: &'static CStr) -> Option<Zeroizing<Vec<u8>>> {
    // SAFETY: getenv(3) takes a string that ends in NUL; there is a single thread, so the environment does not change.
    let value: *mut c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: it is a string that ends in NUL, in memory of this process to which nothing else refers meanwhile.
    let length = unsafe { CStr::from_ptr(value) }.count_bytes();
    // SAFETY: the bytes exist, may be written (environ(7)), and nothing else uses them: there is a single thread.
    let bytes = unsafe { std::slice::from_raw_parts_mut(value.cast::<u8>(), length) };
    let taken = Zeroizing::new(bytes.to_vec());
    bytes.zeroize();
    // SAFETY: there is one thread.
    unsafe { std::env::remove_var(name.to_str().ok()?) };
    Some(taken)
}

/// Disables core dumps of this process.
pub(crate) fn forbid_core_dumps() {
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    let limited = setrlimit(Resource::Core, limit);
    // The limit has no effect where dumps are piped to a program (core(5)).
    if let Err(error) = limited.and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable)) {
        tracing::warn!(%error, "cannot disable core dumps; a crash may write keys to disk");
    }
}

/// Raises the limit of open files to the maximum: connections, content and mounts need many, and a shell's limit of
/// 1,024 suits programs that use select(2).
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn after_core_dumps_are_forbidden_the_system_makes_none() {
        forbid_core_dumps();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().expect("known"), DumpableBehavior::NotDumpable);
    }
}
