//! Who makes a request.
//!
//! - Where mounts may be idmapped (ALLOW_IDMAP, Linux 6.12) a request tells user and group only if it makes something,
//!   already mapped. What else needs them asks the process: its ids as they are outside, and as its user namespace has
//!   them, by which its mounts are mapped as a rule. The kernel has checked permissions by then: what is asked here is
//!   whether setuid and setgid go, and a process that is not known keeps neither.

/// A user or group that a request does not tell (FUSE_INVALID_UIDGID).
const UNTOLD: u32 = u32::MAX;

/// Who makes a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    uid: u32,
    gid: u32,
    /// The process, or 0 if it lies outside the mount's namespace of processes.
    pid: u32,
}

impl Caller {
    pub fn new(uid: u32, gid: u32, pid: u32) -> Self {
        Self { uid, gid, pid }
    }

    /// User and group of what the caller makes.
    pub fn maker(self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Whether the caller keeps setuid and setgid on what it changes, where the kernel does not say whether it has
    /// CAP_FSETID (fallocate, copies of ranges): so the superuser does, but for one of another user namespace.
    pub fn keeps_privileges(self) -> bool {
        self.uid == 0 || (self.uid == UNTOLD && Process::read(self.pid).user == Some(0))
    }

    /// Whether the caller is a user.
    pub fn is_user(self, uid: u32) -> bool {
        self.uid == uid || (self.uid == UNTOLD && Process::read(self.pid).users().any(|user| user == uid))
    }

    /// Whether the caller neither is of a group nor may act as if. The request tells only one group of a process.
    pub fn is_outside(self, group: u32) -> bool {
        if self.keeps_privileges() || self.gid == group {
            return false;
        }
        !Process::read(self.pid).all_groups().any(|known| known == group)
    }
}

/// What `/proc` tells of a process; nothing of one that is not to be seen.
#[derive(Debug, Default)]
struct Process {
    user: Option<u32>,
    /// All its groups.
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

    /// By the user and group that the kernel checks files by, the last of four.
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

/// Ids as they are outside, and as a user namespace has them.
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
    fn a_process_in_a_user_namespace_is_known_by_its_ids_there_too() {
        let status = "Name:\tx\nUid:\t5\t6\t7\t100005\nGid:\t1\t2\t3\t100009\nGroups:\t44 100010 \n";
        let map: Vec<Range> = ["0 100000 65536"].iter().filter_map(|line| Range::parse(line)).collect();
        let process = Process { user_map: map.clone(), group_map: map, ..Process::of_status(status) };
        assert_eq!(process.users().collect::<Vec<_>>(), [100_005, 5]);
        assert_eq!(process.all_groups().collect::<Vec<_>>(), [44, 100_010, 100_009, 10, 9]);
    }
}
