//! Ranges of IP addresses.

use std::net::IpAddr;

/// A range: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Net {
    address: IpAddr,
    bits: u8,
}

impl Net {
    /// `10.0.0.0/8`, `2001:db8::/32`, or one address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    /// Whether an address lies in it.
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

    /// Whether it is so wide that it is as good as no limit (S3 User Guide, the meaning of "public").
    pub(super) fn is_wide(self) -> bool {
        self.bits < if self.address.is_ipv4() { 8 } else { 32 }
    }
}

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
        ];
        for (net, address, expected) in table {
            let net = Net::parse(net).unwrap();
            assert_eq!(net.contains(address.parse().unwrap()), expected, "{net:?} {address}");
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/", "10.0.0.0/-1"] {
            assert_eq!(Net::parse(text), None, "{text}");
        }
    }
}
