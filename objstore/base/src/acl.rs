//! POSIX ACLs in the form of Linux's extended attributes (acl(5); `linux/posix_acl_xattr.h`).
//!
//! - An [`Acl`] value is always valid: its entries are of the kinds and in the order of acl(5), and there is a mask if
//!   a user or group is named. The order of names within a kind is the setter's, as on other file systems.
//! - Layout, little-endian: the version 2 (4 bytes), then for each entry its tag (2), permissions (2) and id (4); the
//!   id is all ones where the tag needs none. It is the kernel's own layout and stored unchanged.

use crate::error::{Posix, Result};

/// The extended attribute with the ACL that decides about access.
pub const ACCESS: &str = "system.posix_acl_access";
/// The extended attribute with the ACL that new files and directories in a directory inherit.
pub const DEFAULT: &str = "system.posix_acl_default";

const VERSION: u32 = 2;
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The largest number of entries: those that fit in a page, since the kernel passes no more.
const ENTRIES_MAX: usize = (4096 - HEADER_BYTES) / ENTRY_BYTES;
const NO_ID: u32 = u32::MAX;
/// Read, write and execute.
const PERMISSIONS: u16 = 0o7;

/// The users that an entry applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The owner.
    Owner,
    /// A user by number.
    User(u32),
    /// The file's group.
    Group,
    /// A group by number.
    NamedGroup(u32),
    /// The upper bound of what everyone except the owner and others is allowed.
    Mask,
    /// All other users.
    Other,
}

/// What one entry allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The users or groups that the entry applies to.
    pub who: Who,
    /// Read (4), write (2) and execute (1).
    pub allowed: u16,
}

/// The kinds of named entries that an ACL is shown without, on a mount that shows fixed owners or groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Users.
    pub users: bool,
    /// Groups.
    pub groups: bool,
}

impl Hidden {
    fn hides(self, who: Who) -> bool {
        match who {
            Who::User(_) => self.users,
            Who::NamedGroup(_) => self.groups,
            _ => false,
        }
    }
}

/// A valid ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

impl Who {
    fn tag(self) -> u16 {
        match self {
            Self::Owner => 0x01,
            Self::User(_) => 0x02,
            Self::Group => 0x04,
            Self::NamedGroup(_) => 0x08,
            Self::Mask => 0x10,
            Self::Other => 0x20,
        }
    }

    fn id(self) -> u32 {
        match self {
            Self::User(id) | Self::NamedGroup(id) => id,
            _ => NO_ID,
        }
    }

    fn new(tag: u16, id: u32) -> Option<Self> {
        match tag {
            0x01 => Some(Self::Owner),
            0x02 if id != NO_ID => Some(Self::User(id)),
            0x04 => Some(Self::Group),
            0x08 if id != NO_ID => Some(Self::NamedGroup(id)),
            0x10 => Some(Self::Mask),
            0x20 => Some(Self::Other),
            _ => None,
        }
    }

    fn is_named(self) -> bool {
        matches!(self, Self::User(_) | Self::NamedGroup(_))
    }
}

impl Acl {
    /// Parses the value of the extended attribute; one without entries is no ACL.
    ///
    /// # Errors
    /// EINVAL if the value is no valid ACL.
    pub fn parse(value: &[u8]) -> Result<Option<Self>> {
        let read = || {
            let (version, entries) = value.split_first_chunk::<HEADER_BYTES>()?;
            let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
            let whole = u32::from_le_bytes(*version) == VERSION && rest.is_empty() && entries.len() <= ENTRIES_MAX;
            let entries: Option<Vec<Entry>> = entries.iter().map(entry).collect();
            entries.filter(|entries| whole && (entries.is_empty() || is_valid(entries)))
        };
        let entries = read().ok_or(Posix::Invalid)?;
        Ok((!entries.is_empty()).then_some(Self(entries)))
    }

    /// The value of the extended attribute.
    pub fn bytes(&self) -> Vec<u8> {
        let mut value = VERSION.to_le_bytes().to_vec();
        for Entry { who, allowed } in &self.0 {
            value.extend(who.tag().to_le_bytes());
            value.extend(allowed.to_le_bytes());
            value.extend(who.id().to_le_bytes());
        }
        value
    }

    /// Its entries.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// Whether it has no more entries than can be stored and passed to the kernel.
    pub fn fits(&self) -> bool {
        self.0.len() <= ENTRIES_MAX
    }

    /// Whether it has entries of the hidden kinds.
    pub fn names(&self, hidden: Hidden) -> bool {
        self.0.iter().any(|entry| hidden.hides(entry.who))
    }

    /// Whether the nine permission bits of a mode express all of it.
    pub fn is_mode(&self) -> bool {
        self.0.iter().all(|entry| matches!(entry.who, Who::Owner | Who::Group | Who::Other))
    }

    /// The nine permission bits that a mode shows for it: the group bits are those of the mask, if there is one.
    pub fn mode(&self) -> u32 {
        let allowed = |who| u32::from(self.of(who).unwrap_or(0));
        allowed(Who::Owner) << 6 | allowed(self.group_class()) << 3 | allowed(Who::Other)
    }

    /// The permissions in the entry of the file's group, not limited by the mask.
    pub fn group(&self) -> u16 {
        self.of(Who::Group).unwrap_or(0)
    }

    /// Changes the entries as a new mode says (chmod(2)).
    pub fn set_mode(&mut self, mode: u32) {
        let class = self.group_class();
        for entry in &mut self.0 {
            entry.allowed = part(mode, entry.who, class).unwrap_or(entry.allowed);
        }
    }

    /// Limits the entries to a mode: for a new file that inherits the ACL from its directory (acl(5), "object
    /// creation").
    pub fn limit_to(&mut self, mode: u32) {
        let class = self.group_class();
        for entry in &mut self.0 {
            entry.allowed &= part(mode, entry.who, class).unwrap_or(PERMISSIONS);
        }
    }

    /// The ACL without entries of the hidden kinds.
    #[must_use]
    pub fn without(mut self, hidden: Hidden) -> Self {
        self.0.retain(|entry| !hidden.hides(entry.who));
        self
    }

    /// The ACL with the entries of the hidden kinds that `other` has. They need a mask; a new mask leaves the group its
    /// permissions.
    #[must_use]
    pub fn with_hidden_of(mut self, other: &Self, hidden: Hidden) -> Self {
        let kept: Vec<Entry> = other.0.iter().filter(|entry| hidden.hides(entry.who)).copied().collect();
        if kept.is_empty() {
            return self;
        }
        if self.of(Who::Mask).is_none() {
            self.0.push(Entry { who: Who::Mask, allowed: self.group() });
        }
        self.0.extend(kept);
        self.0.sort_by_key(|entry| entry.who.tag());
        self
    }

    fn of(&self, who: Who) -> Option<u16> {
        self.0.iter().find(|entry| entry.who == who).map(|entry| entry.allowed)
    }

    /// The entry that a mode's group bits express.
    fn group_class(&self) -> Who {
        if self.of(Who::Mask).is_some() { Who::Mask } else { Who::Group }
    }
}

/// The bits of a mode that express an entry, if any do.
fn part(mode: u32, who: Who, class: Who) -> Option<u16> {
    let shift = match who {
        Who::Owner => 6,
        Who::Other => 0,
        _ if who == class => 3,
        _ => return None,
    };
    u16::try_from(mode >> shift & u32::from(PERMISSIONS)).ok()
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> Option<Entry> {
    let [tag0, tag1, allowed0, allowed1, id @ ..] = *bytes;
    let allowed = u16::from_le_bytes([allowed0, allowed1]);
    let who = Who::new(u16::from_le_bytes([tag0, tag1]), u32::from_le_bytes(id))?;
    (allowed & !PERMISSIONS == 0).then_some(Entry { who, allowed })
}

fn is_valid(entries: &[Entry]) -> bool {
    let count = |who| entries.iter().filter(|entry| entry.who == who).count();
    let named = entries.iter().any(|entry| entry.who.is_named());
    let once = [Who::Owner, Who::Group, Who::Other].iter().all(|who| count(*who) == 1);
    let masks = count(Who::Mask);
    once && (masks == 1 || (masks == 0 && !named)) && entries.is_sorted_by_key(|entry| entry.who.tag())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(Who, u16)]) -> Acl {
        Acl(entries.iter().map(|(who, allowed)| Entry { who: *who, allowed: *allowed }).collect())
    }

    /// `u::rwx,u:5:rw,g::rx,g:6:x,m::rx,o::r`
    fn sample() -> Acl {
        use Who::*;
        acl(&[(Owner, 7), (User(5), 6), (Group, 5), (NamedGroup(6), 1), (Mask, 5), (Other, 4)])
    }

    #[test]
    fn acls_round_trip_in_the_layout_of_the_kernel() {
        let bytes = sample().bytes();
        assert_eq!(bytes[..20], [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 6, 0, 5, 0, 0, 0]);
        assert_eq!(Acl::parse(&bytes).unwrap(), Some(sample()));
        assert_eq!(Acl::parse(&[2, 0, 0, 0]).unwrap(), None);
    }

    #[test]
    fn a_changed_byte_is_refused_or_read_as_something_else() {
        let bytes = sample().bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // The id of an entry without a name has no meaning.
            let unused = [8, 24, 40, 48].iter().any(|id| (*id..id + 4).contains(&at));
            if let Ok(read) = Acl::parse(&damaged) {
                assert_eq!(read == Some(sample()), unused, "byte {at}");
            }
        }
    }

    #[test]
    fn kinds_order_and_counts_are_checked() {
        use Who::*;
        let wrong: [&[(Who, u16)]; 9] = [
            &[(Owner, 7), (Group, 7)],
            &[(Owner, 7), (Owner, 7), (Group, 7), (Other, 7)],
            &[(Group, 7), (Owner, 7), (Other, 7)],
            &[(Owner, 7), (User(1), 7), (Group, 7), (Other, 7)],
            &[(Owner, 7), (Group, 7), (Mask, 7), (Mask, 7), (Other, 7)],
            &[(Owner, 7), (Group, 7), (Other, 7), (Mask, 7)],
            &[(Owner, 8), (Group, 7), (Other, 7)],
            &[(Owner, 7), (User(NO_ID), 7), (Group, 7), (Mask, 7), (Other, 7)],
            &[(Mask, 7)],
        ];
        for entries in wrong {
            assert!(Acl::parse(&acl(entries).bytes()).is_err(), "{entries:?}");
        }
        let bytes = sample().bytes();
        assert!(Acl::parse(&bytes[..bytes.len() - 1]).is_err() && Acl::parse(&[]).is_err());
        assert!(Acl::parse(&[1, 0, 0, 0]).is_err(), "another version");
        let users = (0..ENTRIES_MAX as u32).map(|id| (User(id), 7));
        let many: Vec<_> = [(Owner, 7)].into_iter().chain(users).chain([(Group, 7), (Mask, 7), (Other, 7)]).collect();
        assert!(Acl::parse(&acl(&many).bytes()).is_err());
    }

    #[test]
    fn the_groups_bits_of_a_mode_are_the_masks() {
        use Who::*;
        let mut named = sample();
        assert_eq!((named.mode(), named.is_mode(), named.group()), (0o754, false, 5));
        named.set_mode(0o640);
        assert_eq!(named, acl(&[(Owner, 6), (User(5), 6), (Group, 5), (NamedGroup(6), 1), (Mask, 4), (Other, 0)]));
        let mut plain = acl(&[(Owner, 7), (Group, 5), (Other, 4)]);
        assert_eq!((plain.mode(), plain.is_mode()), (0o754, true));
        plain.set_mode(0o640);
        assert_eq!(plain.mode(), 0o640);
    }

    #[test]
    fn what_is_made_gets_no_more_than_it_asked_for() {
        use Who::*;
        let mut given = sample();
        given.limit_to(0o666);
        assert_eq!(given, acl(&[(Owner, 6), (User(5), 6), (Group, 5), (NamedGroup(6), 1), (Mask, 4), (Other, 4)]));
        assert_eq!(given.mode(), 0o644);
        let mut plain = acl(&[(Owner, 7), (Group, 7), (Other, 5)]);
        plain.limit_to(0o640);
        assert_eq!(plain.mode(), 0o640);
    }

    #[test]
    fn hidden_names_are_left_out_and_kept() {
        use Who::*;
        let users = Hidden { users: true, groups: false };
        assert!(sample().names(users));
        let shown = sample().without(users);
        assert_eq!(shown, acl(&[(Owner, 7), (Group, 5), (NamedGroup(6), 1), (Mask, 5), (Other, 4)]));
        assert_eq!(shown.with_hidden_of(&sample(), users), sample());
        let plain = acl(&[(Owner, 7), (Group, 4), (Other, 0)]);
        let kept = plain.clone().with_hidden_of(&sample(), users);
        assert_eq!(kept, acl(&[(Owner, 7), (User(5), 6), (Group, 4), (Mask, 4), (Other, 0)]));
        assert_eq!(plain.clone().with_hidden_of(&plain, users), plain);
    }
}
