//! Whether a policy is public (S3 User Guide, Blocking public access, "The meaning of public").
//!
//! - A policy counts as public unless each statement that allows everyone is restricted to named callers or to ranges
//!   of addresses. Other conditions do not count, since a client can make a request that meets them.
//! - Ranges are added up over all values and statements: two halves of the address space are all of it.
//! - A denying statement never makes a policy less public, because what remains is unknown.

use super::condition::Net;

/// The callers that a statement allows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reach<'a> {
    /// None, or named callers only.
    Named,
    /// Callers from these ranges of addresses.
    Ranges(&'a [Net]),
    /// Everyone.
    Anybody,
}

/// The shortest prefix of a range that does not count as public.
const V4_BITS_MIN: u8 = 8;
const V6_BITS_MIN: u8 = 32;
/// The most addresses of all ranges of a policy together: as many as the widest single range.
const V4_MAX: u128 = 1 << (32 - V4_BITS_MIN);
const V6_MAX: u128 = 1 << (128 - V6_BITS_MIN);

/// Ranges without a route on the Internet, by first and last address. They do not count.
const V4_PRIVATE: [(u128, u128); 5] = [
    (0x0a00_0000, 0x0aff_ffff), // 10.0.0.0/8 (RFC 1918)
    (0x7f00_0000, 0x7fff_ffff), // 127.0.0.0/8, loopback (RFC 1122)
    (0xa9fe_0000, 0xa9fe_ffff), // 169.254.0.0/16, link-local (RFC 3927)
    (0xac10_0000, 0xac1f_ffff), // 172.16.0.0/12 (RFC 1918)
    (0xc0a8_0000, 0xc0a8_ffff), // 192.168.0.0/16 (RFC 1918)
];
const V6_PRIVATE: [(u128, u128); 3] = [
    (1, 1),                               // ::1, loopback (RFC 4291)
    (0xfc << 120, (0xfe << 120) - 1),     // fc00::/7, unique local (RFC 4193)
    (0xfe80 << 112, (0xfec0 << 112) - 1), // fe80::/10, link-local (RFC 4291)
];

/// Whether statements with this reach make a policy public.
pub(super) fn is_public<'a>(statements: impl Iterator<Item = Reach<'a>>) -> bool {
    let mut ranges = Vec::new();
    for reach in statements {
        match reach {
            Reach::Anybody => return true,
            Reach::Ranges(nets) => ranges.extend_from_slice(nets),
            Reach::Named => {}
        }
    }
    is_wide(&ranges)
}

/// Whether one of the ranges, or all together, are too wide to count as a restriction.
pub(super) fn is_wide(ranges: &[Net]) -> bool {
    let alone = |net: &Net| net.bits() < if net.is_v4() { V4_BITS_MIN } else { V6_BITS_MIN };
    let of = |v4: bool| ranges.iter().filter(move |net| net.is_v4() == v4).map(|net| net.ends()).collect();
    ranges.iter().any(alone) || count(of(true), &V4_PRIVATE) > V4_MAX || count(of(false), &V6_PRIVATE) > V6_MAX
}

/// The number of addresses in the ranges without the private ones.
fn count(mut ranges: Vec<(u128, u128)>, private: &[(u128, u128)]) -> u128 {
    ranges.sort_unstable();
    let (mut total, mut next) = (0_u128, 0_u128);
    for (first, last) in ranges {
        // Addresses before `next` were counted already.
        if last < next {
            continue;
        }
        let first = first.max(next);
        let within = |&(start, end): &(u128, u128)| match (start.max(first), end.min(last)) {
            (from, to) if from <= to => size(from, to),
            _ => 0,
        };
        let unrouted: u128 = private.iter().map(within).sum();
        total = total.saturating_add(size(first, last).saturating_sub(unrouted));
        match last.checked_add(1) {
            Some(after) => next = after,
            None => return total,
        }
    }
    total
}

fn size(first: u128, last: u128) -> u128 {
    (last - first).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(ranges: &[&str]) -> bool {
        is_wide(&ranges.iter().map(|range| Net::parse(range).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn ranges_are_wide_alone_or_together() {
        let every = |bits: u32, count: u32| -> Vec<String> {
            (0..count).map(|n| format!("{}/{bits}", std::net::Ipv4Addr::from(n << (32 - bits)))).collect()
        };
        let together = |ranges: Vec<String>| wide(&ranges.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(together(every(8, 256)) && together(every(9, 512)) && together(every(8, 3)));
        assert!(!together(every(9, 2)) && !together(every(16, 256)));
        assert!(wide(&["0.0.0.0/1"]) && wide(&["0.0.0.0/0"]) && wide(&["10.0.0.0/7"]));
        assert!(wide(&["8.0.0.0/8", "9.0.0.0/32"]), "an address more than a range of 8 bits");
        assert!(!wide(&["8.0.0.0/8", "8.8.8.8", "8.0.0.0/9"]), "what is counted twice is counted once");
        assert!(!wide(&["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "8.0.0.0/8"]));
        assert!(wide(&["::/0"]) && wide(&["2001::/31"]) && !wide(&["2001:db8::/32"]));
        assert!(wide(&["2001:db8::/32", "2001:db9::/32"]) && wide(&["8000::/33", "8000:0:8000::/33", "9000::/128"]));
        assert!(!wide(&["2001:db8::/32", "fd00::/32", "fe80::/64", "::1"]));
        assert!(wide(&["::ffff:0.0.0.0/96"]) && wide(&["::ffff:0.0.0.0/97", "::ffff:128.0.0.0/97"]));
        assert!(!wide(&["::ffff:8.0.0.0/104"]) && wide(&["::ffff:8.0.0.0/104", "9.9.9.9"]));
        assert!(!wide(&[]));
    }
}
