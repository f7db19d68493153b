//! The caller of a request: the process, user and group on whose behalf the kernel asks.
//!
//! - Where mounts may be idmapped (ALLOW_IDMAP, Linux 6.12), a request carries user and group only if it creates
//!   something; they are mapped already. Other operations read the process's ids from `/proc`: the ids in the initial
//!   namespace and in the process's own user namespace, by which its mounts are usually mapped.
//! - The kernel numbers processes in the PID namespace of the process that mounted. In another one, where a takeover may
//!   happen, such a number is another process: nobody is looked up then, and each caller counts as unknown.
//! - The kernel has checked permissions before. What remains to decide is whether setuid and setgid are cleared; an
//!   unknown process never keeps them.

/// User or group of a request that carries none (FUSE_INVALID_UIDGID).
const UNTOLD: u32 = u32::MAX;

/// The PID namespace of this process, as the kernel names it; empty if it cannot be read.
pub(crate) fn pid_namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").ok();
    link.and_then(|link| link.into_os_string().into_string().ok()).unwrap_or_default()
}

/// Whether a PID namespace is that of this process; one that is not known is not.
pub(crate) fn is_own_namespace(namespace: &str) -> bool {
    !namespace.is_empty() && pid_namespace() == namespace
}

/// The caller of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    uid: u32,
    gid: u32,
    /// The process id, or 0 if the process lies outside the mount's PID namespace.
    pid: u32,
}

impl Caller {
    pub fn new(uid: u32, gid: u32, pid: u32) -> Self {
        Self { uid, gid, pid }
    }

    /// User and group for what the caller creates.
    pub fn maker(self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Whether the caller's changes keep setuid and setgid, where the kernel does not say whether it has CAP_FSETID
    /// (fallocate, range copies): only root keeps them, and only in the initial user namespace.
    pub fn keeps_privileges(self) -> bool {
        self.uid == 0 || (self.uid == UNTOLD && Process::read(self.pid).user == Some(0))
    }

    /// Whether the caller acts as user `uid`.
    pub fn is_user(self, uid: u32) -> bool {
        self.uid == uid || (self.uid == UNTOLD && Process::read(self.pid).users().any(|user| user == uid))
    }

    /// Whether the caller is not a member of `group` and may not act as one. A request carries only one group of a
    /// process.
    pub fn is_outside(self, group: u32) -> bool {
        if self.keeps_privileges() || self.gid == group {
            return false;
        }
        !Process::read(self.pid).all_groups().any(|known| known == group)
    }
}

/// The ids of a process from `/proc`; empty for a process that is not visible.
#[derive(Debug, Default)]
struct Process {
    user: Option<u32>,
    /// The primary and supplementary groups.
    groups: Vec<u32>,
    user_map: Vec<Range>,
    group_map: Vec<Range>,
}

/// A line of `/proc/PID/uid_map`.
#[derive(Clone, Copy, Debug)]
struct Range {
    inside: u32,
    outside: u32,
    count: u32,
}

impl Range {
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
        Some(Self { inside: numbers.next()??, outside: numbers.next()??, count: numbers.next()?? })
    }

    fn into_inside(self, id: u32) -> Option<u32> {
        let at = id.checked_sub(self.outside).filter(|at| *at < self.count)?;
        self.inside.checked_add(at)
    }
}

impl Process {
    fn read(pid: u32) -> Self {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let map = |file| read(file).lines().filter_map(Range::parse).collect();
        Self { user_map: map("uid_map"), group_map: map("gid_map"), ..Self::of_status(&read("status")) }
    }

    /// Takes user and group from the last of the four ids: those that the kernel checks files by (fsuid and fsgid).
    fn of_status(status: &str) -> Self {
        let numbers = |label: &str| -> Vec<u32> {
            let line = status.lines().find_map(|line| line.strip_prefix(label)).unwrap_or_default();
            line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
        };
        let mut groups = numbers("Groups:");
        groups.extend(numbers("Gid:").last());
        Self { user: numbers("Uid:").last().copied(), groups, ..Self::default() }
    }

    fn users(&self) -> impl Iterator<Item = u32> {
        both(self.user.as_slice(), &self.user_map)
    }

    fn all_groups(&self) -> impl Iterator<Item = u32> {
        both(&self.groups, &self.group_map)
    }
}

/// The ids in the initial namespace, and as a user namespace shows them.
fn both(ids: &[u32], map: &[Range]) -> impl Iterator<Item = u32> {
    let inside = |id: &u32| map.iter().find_map(|range| range.into_inside(*id));
    ids.iter().copied().chain(ids.iter().filter_map(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_process() {
        let mine = rustix::process::getgroups().unwrap();
        let known = Process::read(std::process::id()).groups;
        assert!(mine.iter().all(|group| known.contains(&group.as_raw())), "{known:?}");
        let caller = Caller::new(1, 2, 0);
        assert!(!caller.is_outside(2) && caller.is_outside(3) && !Caller { uid: 0, ..caller }.is_outside(3));
    }

    #[test]
    fn who_is_not_told_is_asked_for_and_nobody_if_not_known() {
        let me = Caller::new(UNTOLD, UNTOLD, std::process::id());
        let uid = rustix::process::geteuid().as_raw();
        assert!(me.is_user(uid) && me.keeps_privileges() == (uid == 0));
        let nobody = Caller { pid: 0, ..me };
        assert!(!nobody.is_user(uid) && !nobody.keeps_privileges() && nobody.is_outside(0));
    }

    #[test]
    fn processes_are_looked_up_in_the_namespace_that_numbers_them() {
        assert!(is_own_namespace(&pid_namespace()));
        assert!(!is_own_namespace("pid:[1]") && !is_own_namespace(""), "an unknown one may be another");
    }

    #[test]
    fn a_process_in_a_user_namespace_is_known_by_its_ids_there_too() {
        let status = "Name:\tx\nUid:\t5\t6\t7\t100005\nGid:\t1\t2\t3\t100009\nGroups:\t44 100010 \n";
        let map: Vec<Range> = ["0 100000 65536"].iter().filter_map(|line| Range::parse(line)).collect();
        let process = Process { user_map: map.clone(), group_map: map, ..Process::of_status(status) };
        assert_eq!(process.users().collect::<Vec<_>>(), [100_005, 5]);
        assert_eq!(process.all_groups().collect::<Vec<_>>(), [44, 100_010, 100_009, 10, 9]);
    }
}
