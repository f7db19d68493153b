//! Parameters of a StorageClass.
//!
//! - Unknown keys are refused, except those that the Kubernetes sidecars add.

use std::collections::{BTreeMap, HashMap};

use objstore::store::{RootAttributes, Versioning};
use objstore::{Error, Result};

/// The prefix of keys that the sidecars add.
const SIDECAR_PREFIX: &str = "csi.storage.k8s.io/";

/// The parsed parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// `uid`, `gid` and `mode` of the root directory of a new volume; a clone keeps its source's.
    pub(crate) root: RootAttributes,
    /// `versioning`: whether the bucket has versioning.
    pub(crate) versioning: Versioning,
}

impl Parameters {
    /// Parses the parameters of a StorageClass.
    pub(crate) fn parse(given: &HashMap<String, String>) -> Result<Self> {
        let mut parameters = Self::default();
        for (key, value) in given {
            match key.as_str() {
                "uid" => parameters.root.uid = number("uid", value)?,
                "gid" => parameters.root.gid = number("gid", value)?,
                "mode" => parameters.root.mode = permissions(value)?,
                "versioning" => parameters.versioning = versioning(value)?,
                added if added.starts_with(SIDECAR_PREFIX) => {}
                _ => {
                    let known = "a StorageClass has the parameters \"uid\", \"gid\", \"mode\" and \"versioning\"";
                    return Err(Error::invalid("parameter", key, known));
                }
            }
        }
        Ok(parameters)
    }

    /// The attributes to store with the bucket, by which a repeated request is recognized.
    pub(crate) fn attributes(self) -> BTreeMap<String, String> {
        let versioning = if self.versioning == Versioning::Enabled { "enabled" } else { "disabled" };
        BTreeMap::from([
            ("csi.uid".to_owned(), self.root.uid.to_string()),
            ("csi.gid".to_owned(), self.root.gid.to_string()),
            ("csi.mode".to_owned(), format!("{:04o}", self.root.mode)),
            ("csi.versioning".to_owned(), versioning.to_owned()),
        ])
    }
}

fn number(what: &'static str, value: &str) -> Result<u32> {
    // (uid_t) -1 means "unchanged" for chown(2).
    let id = value.parse().ok().filter(|id| *id != u32::MAX);
    id.ok_or_else(|| Error::invalid(what, value, "use a number from 0 to 4294967294"))
}

fn permissions(value: &str) -> Result<u32> {
    let digits = (1..=4).contains(&value.len()) && value.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    let bits = digits.then(|| u32::from_str_radix(value, 8).ok()).flatten();
    bits.ok_or_else(|| Error::invalid("mode", value, "use permission bits in octal, such as 0770"))
}

fn versioning(value: &str) -> Result<Versioning> {
    match value {
        "enabled" => Ok(Versioning::Enabled),
        "disabled" => Ok(Versioning::Disabled),
        _ => Err(Error::invalid("versioning", value, "use enabled or disabled")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Parameters> {
        Parameters::parse(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn parameters_are_read_and_the_sidecars_passed_over() {
        assert_eq!(parse(&[("csi.storage.k8s.io/pvc/name", "data")]).unwrap(), Parameters::default());
        let all = parse(&[("uid", "1000"), ("gid", "100"), ("mode", "0770"), ("versioning", "enabled")]).unwrap();
        assert_eq!(all.root, RootAttributes { uid: 1000, gid: 100, mode: 0o770 });
        assert_eq!(all.versioning, Versioning::Enabled);
        assert_eq!(all.attributes()["csi.mode"], "0770");
    }

    #[test]
    fn bad_parameters_are_refused_by_name() {
        for (key, value) in [
            ("fstype", "ext4"),
            ("uid", "root"),
            ("uid", "-1"),
            ("gid", "4294967295"),
            ("mode", "999"),
            ("mode", "07777"),
            ("mode", ""),
            ("versioning", "on"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
