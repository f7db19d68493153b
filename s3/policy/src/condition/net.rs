//! Ranges of IP addresses.
//!
//! - A range of IPv4 addresses written as IPv6 (`::ffff:10.0.0.0/104`) is converted to IPv4, the form in which callers
//!   are known.

use std::net::IpAddr;

/// A range: an address and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Net {
    address: IpAddr,
    bits: u8,
}

impl Net {
    /// Parses `10.0.0.0/8`, `2001:db8::/32`, or a single address.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits }.canonical())
    }

    /// The range as IPv4 if all of it is.
    fn canonical(self) -> Self {
        match (self.address.to_canonical(), self.address) {
            (address @ IpAddr::V4(_), IpAddr::V6(_)) if self.bits >= MAPPED_BITS => {
                Self { address, bits: self.bits - MAPPED_BITS }
            }
            _ => self,
        }
    }

    /// Whether an address is in the range.
    pub(super) fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u32::from(own) ^ u32::from(other);
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = u128::from(own) ^ u128::from(other);
                differ.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }

    /// Whether it is a range of IPv4.
    pub(crate) fn is_v4(self) -> bool {
        self.address.is_ipv4()
    }

    /// The number of leading bits that its addresses share.
    pub(crate) fn bits(self) -> u8 {
        self.bits
    }

    /// The first and the last address as numbers.
    pub(crate) fn ends(self) -> (u128, u128) {
        let (address, width) = match self.address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (u128::from(address), 128),
        };
        let host = u128::MAX.checked_shr(128 - width + u32::from(self.bits)).unwrap_or(0);
        (address & !host, address | host)
    }
}

/// The bits that IPv4 addresses share when written as IPv6 (RFC 4291, section 2.5.5.2).
const MAPPED_BITS: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_their_addresses() {
        let table = [
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("2001:db8::/32", "2001:db8:1::2", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::ffff:10.0.0.0/104", "10.9.9.9", true),
            ("::ffff:10.0.0.0/104", "11.0.0.0", false),
            ("::ffff:10.0.0.7", "10.0.0.7", true),
        ];
        for (net, address, expected) in table {
            let net = Net::parse(net).unwrap();
            assert_eq!(net.contains(address.parse().unwrap()), expected, "{net:?} {address}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(Net::parse(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_have_a_first_and_a_last_address() {
        let table = [
            ("10.1.2.3/8", (10 << 24, (11 << 24) - 1)),
            ("0.0.0.0/0", (0, u128::from(u32::MAX))),
            ("10.0.0.7", ((10 << 24) + 7, (10 << 24) + 7)),
            ("::/0", (0, u128::MAX)),
            ("::8/125", (8, 15)),
            ("::1", (1, 1)),
        ];
        for (net, expected) in table {
            assert_eq!(Net::parse(net).unwrap().ends(), expected, "{net}");
        }
    }
}
