//! Topology: where volumes can be used. CSI v1.12, Topology.
//!
//! - The operator says it, because the driver cannot know it. Without segments every node can use every volume, and no
//!   constraint is advertised.
//! - Keys are compared without regard to case, values exactly.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::str::FromStr;

use objstore::{Error, Result};
use proto::csi::v1::Topology as Wire;
use rpc::driver_name::is_domain;

/// The most segments. Kubernetes labels each node with all of them.
const SEGMENTS_MAX: usize = 8;
/// The longest name of a key, prefix and value in bytes (CSI v1.12, Topology).
const PART_BYTES_MAX: usize = 63;

/// Segments, such as the zone and the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology(BTreeMap<String, String>);

impl Topology {
    /// Whether there is no segment.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The segments for the orchestrator; `None` without any.
    pub(crate) fn wire(&self) -> Option<Wire> {
        let segments: HashMap<_, _> = self.0.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        (!self.is_empty()).then_some(Wire { segments })
    }

    /// Whether a volume with these segments can be used in `place`.
    pub(crate) fn admits(&self, place: &Wire) -> bool {
        let value = |key: &str| place.segments.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(key));
        self.0.iter().all(|(key, wanted)| value(key).is_some_and(|(_, found)| found == wanted))
    }
}

impl FromStr for Topology {
    type Err = Error;

    /// Parses `KEY=VALUE,…`.
    fn from_str(text: &str) -> Result<Self> {
        let mut segments = BTreeMap::new();
        let mut prefixes = Vec::new();
        for segment in text.split(',').map(str::trim).filter(|segment| !segment.is_empty()) {
            let bad = |why: &str| Error::invalid("topology", segment, why);
            let (key, value) = segment.split_once('=').ok_or_else(|| bad("use KEY=VALUE"))?;
            let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
            if !is_name(name) || !prefix.is_none_or(is_prefix) {
                return Err(bad("use a key such as topology.kubernetes.io/zone or zone"));
            }
            if !is_name(value) {
                return Err(bad("use a value of 1 to 63 letters, digits, hyphens, dots and underscores"));
            }
            if segments.keys().any(|known: &String| known.eq_ignore_ascii_case(key)) {
                return Err(bad("the key occurs twice"));
            }
            prefixes.push(prefix);
            segments.insert(key.to_owned(), value.to_owned());
        }
        if prefixes.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(Error::invalid("topology", text, "all keys have the same prefix, or none has one"));
        }
        if segments.len() > SEGMENTS_MAX {
            return Err(Error::invalid("topology", text, format!("use at most {SEGMENTS_MAX} segments")));
        }
        Ok(Self(segments))
    }
}

impl Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments: Vec<_> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&segments.join(","))
    }
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    ends && bytes.len() <= PART_BYTES_MAX && bytes.iter().all(inner)
}

fn is_prefix(text: &str) -> bool {
    text.len() <= PART_BYTES_MAX && is_domain(text) && text.bytes().all(|byte| !byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Wire {
        text.parse::<Topology>().unwrap().wire().unwrap_or_default()
    }

    #[test]
    fn a_volume_is_used_where_all_its_segments_are() {
        let volumes: Topology = "x.example/zone=z1,x.example/node=a".parse().unwrap();
        assert!(volumes.admits(&place("x.example/zone=z1,x.example/node=a,x.example/rack=7")));
        assert!(volumes.admits(&place("x.example/ZONE=z1,x.example/node=a")), "keys have no case");
        for other in
            ["x.example/zone=z1", "x.example/zone=z2,x.example/node=a", "x.example/zone=Z1,x.example/node=a", ""]
        {
            assert!(!volumes.admits(&place(other)), "{other}");
        }
        let everywhere = Topology::default();
        assert!(everywhere.admits(&place("zone=z1")) && everywhere.wire().is_none());
    }

    #[test]
    fn segments_are_written_as_the_specification_has_them() {
        let long = "k".repeat(64);
        for bad in [
            "zone",
            "=z1",
            "zone=",
            "zone=-a",
            "a/b/c=1",
            "UPPER.example/zone=1",
            "a..example/zone=1",
            "a-.example/zone=1",
            "a_b.example/zone=1",
            "zone=1,Zone=2",
            "a.example/zone=1,rack=2",
            &format!("{long}=1"),
            &format!("zone={long}"),
            "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1",
        ] {
            assert!(bad.parse::<Topology>().is_err(), "{bad}");
        }
        let good: Topology = " zone=z1, rack=r_1 ".parse().unwrap();
        assert_eq!(good.to_string(), "rack=r_1,zone=z1");
        assert!("".parse::<Topology>().unwrap().is_empty());
    }
}
