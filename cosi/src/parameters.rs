//! Parameters of BucketClass and BucketAccessClass.
//!
//! - An unknown key is refused: a misspelt quota must not become no quota.

use std::collections::{BTreeMap, HashMap};

use objstore::store::{Bucket, Mode, Versioning};
use objstore::{Error, Result};

use crate::preset::{self, Preset};
use crate::size;

/// The attribute with the name of the driver that created a bucket.
pub(crate) const DRIVER: &str = "provisioner";
/// The attribute with the requested name of a bucket: a copy restored under another name is not the driver's.
pub(crate) const NAME: &str = "cosi.name";
/// The attribute with the quota at creation, in bytes.
const QUOTA: &str = "cosi.quota";
/// The attribute with the versioning at creation.
const VERSIONING: &str = "cosi.versioning";

/// The parsed parameters of a BucketClass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketParameters {
    /// `quota`: the most bytes a bucket may hold.
    pub(crate) quota_bytes: Option<u64>,
    /// `versioning`: whether buckets have versioning.
    pub(crate) versioning: Versioning,
    /// The other parameters: first settings of new buckets.
    pub(crate) preset: Preset,
}

impl BucketParameters {
    /// Parses the parameters of a BucketClass.
    pub(crate) fn parse(given: &HashMap<String, String>) -> Result<Self> {
        let mut parameters = Self::default();
        for (key, value) in given {
            match key.as_str() {
                "quota" => parameters.quota_bytes = Some(size::parse("quota", value)?),
                "versioning" => parameters.versioning = versioning(value)?,
                _ if parameters.preset.take(key, value)? => {}
                _ => {
                    let others = preset::NAMES.join("\", \"");
                    let known = format!("a BucketClass has the parameters \"quota\", \"versioning\", \"{others}\"");
                    return Err(unknown(key, &known));
                }
            }
        }
        if parameters.preset.locks_objects() && parameters.versioning != Versioning::Enabled {
            let why = "object lock needs versioning: add the parameter versioning with the value enabled";
            return Err(Error::invalid("objectLock", "enabled", why));
        }
        Ok(parameters)
    }

    /// Parses the parameters that an existing bucket must match.
    pub(crate) fn parse_given(given: &HashMap<String, String>) -> Result<GivenParameters> {
        let parsed = Self::parse(given)?;
        if let Some(key) = given.keys().find(|key| preset::NAMES.contains(&key.as_str())) {
            return Err(Error::invalid(
                "parameter",
                key,
                "it is set for new buckets alone: use a BucketClass without it",
            ));
        }
        let versioning = given.contains_key("versioning").then_some(parsed.versioning);
        Ok(GivenParameters { quota_bytes: parsed.quota_bytes, versioning })
    }

    /// The attributes to store with a bucket, by which a repeated request is recognized though the quota changed since.
    pub(crate) fn attributes(self, driver_name: &str) -> BTreeMap<String, String> {
        let quota = self.quota_bytes.map(|bytes| (QUOTA.to_owned(), bytes.to_string()));
        let versioning = match self.versioning {
            Versioning::Enabled => "enabled",
            Versioning::Disabled | Versioning::Suspended => "disabled",
        };
        let fixed = [(DRIVER.to_owned(), driver_name.to_owned()), (VERSIONING.to_owned(), versioning.to_owned())];
        fixed.into_iter().chain(quota).chain(self.preset.attributes()).collect()
    }
}

/// The parameters of a BucketClass that were given; the others match every bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenParameters {
    quota_bytes: Option<u64>,
    versioning: Option<Versioning>,
}

impl GivenParameters {
    /// The parameter that a bucket does not match.
    pub(crate) fn differs_from(self, bucket: &Bucket) -> Option<&'static str> {
        if self.quota_bytes.is_some_and(|quota| bucket.quota_bytes != Some(quota)) {
            return Some("quota");
        }
        let enabled = |versioning| versioning == Versioning::Enabled;
        let differs = self.versioning.is_some_and(|asked| enabled(asked) != enabled(bucket.versioning));
        differs.then_some("versioning")
    }
}

/// Whether a bucket with the attributes `kept` was requested with the attributes `asked`.
pub(crate) fn same_request(kept: &BTreeMap<String, String>, asked: &BTreeMap<String, String>) -> bool {
    let fixed = [DRIVER, QUOTA, VERSIONING].map(str::to_owned);
    let keys = fixed.into_iter().chain(preset::NAMES.map(preset::attribute));
    keys.into_iter().all(|key| kept.get(&key) == asked.get(&key))
}

/// A ServiceAccount that may take a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceAccount {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The audience that its tokens must have; `None`: any that STS accepts.
    pub(crate) audience: Option<String>,
}

/// The parameter with the namespace of the ServiceAccount that an access is for.
const NAMESPACE: &str = "serviceAccountNamespace";
/// The parameter with its name, where the request has none.
const ACCOUNT: &str = "serviceAccountName";
/// The parameter with the audience that its tokens must have.
const AUDIENCE: &str = "audience";

/// Parses the parameters of a BucketAccessClass of v1alpha1: the mode of the access, `rw` by default.
pub(crate) fn access_mode(given: &HashMap<String, String>) -> Result<Mode> {
    let mut mode = Mode::ReadWrite;
    for (key, value) in given {
        mode = match (key.as_str(), value.as_str()) {
            ("mode", "ro") => Mode::Read,
            ("mode", "wo") => Mode::Write,
            ("mode", "rw") => Mode::ReadWrite,
            ("mode", _) => return Err(Error::invalid("mode", value, "use ro, rw or wo")),
            (NAMESPACE | ACCOUNT | AUDIENCE, _) => {
                return Err(Error::invalid(
                    "parameter",
                    key,
                    "it is for a BucketAccessClass with authenticationType IAM",
                ));
            }
            _ => return Err(unknown(key, "a BucketAccessClass has the parameter \"mode\"")),
        };
    }
    Ok(mode)
}

/// Parses the parameters of a BucketAccessClass for ServiceAccounts, and returns the others. `named` is the ServiceAccount
/// of the request, if the version of the specification has one there.
pub(crate) fn service_account(
    mut given: HashMap<String, String>,
    named: Option<String>,
) -> Result<(ServiceAccount, HashMap<String, String>)> {
    let missing = |key: &'static str| Error::invalid("parameter", key, "the BucketAccessClass has to have it");
    let namespace = given.remove(NAMESPACE).ok_or_else(|| missing(NAMESPACE))?;
    let name = match named {
        Some(name) => name,
        None => given.remove(ACCOUNT).ok_or_else(|| missing(ACCOUNT))?,
    };
    let audience = given.remove(AUDIENCE).filter(|audience| !audience.is_empty());
    Ok((ServiceAccount { namespace, name, audience }, given))
}

fn versioning(value: &str) -> Result<Versioning> {
    match value {
        "enabled" => Ok(Versioning::Enabled),
        "disabled" => Ok(Versioning::Disabled),
        _ => Err(Error::invalid("versioning", value, "use enabled or disabled")),
    }
}

fn unknown(key: &str, known: &str) -> Error {
    Error::invalid("parameter", key, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn bucket_parameters_are_read() {
        let none = BucketParameters::parse(&map(&[])).unwrap();
        assert_eq!(none, BucketParameters::default());
        let both = BucketParameters::parse(&map(&[("quota", "1Gi"), ("versioning", "enabled")])).unwrap();
        let expected = BucketParameters { quota_bytes: Some(1 << 30), versioning: Versioning::Enabled, ..none };
        assert_eq!(both, expected);
        assert!(BucketParameters::parse(&map(&[("objectLock", "enabled")])).is_err(), "it needs versioning");
        let locked = map(&[("objectLock", "enabled"), ("versioning", "enabled")]);
        assert!(BucketParameters::parse(&locked).unwrap().preset.locks_objects());
        assert!(BucketParameters::parse_given(&locked).is_err(), "an existing bucket keeps its settings");
    }

    #[test]
    fn unknown_parameters_are_named_with_the_known_ones() {
        let error = BucketParameters::parse(&map(&[("qouta", "1Gi")])).unwrap_err().to_string();
        assert!(
            error.contains("\"qouta\"") && error.contains("\"quota\", \"versioning\", \"anonymousAccess\""),
            "{error}"
        );
        let error = access_mode(&map(&[("Mode", "ro")])).unwrap_err().to_string();
        assert!(error.contains("\"Mode\"") && error.contains("\"mode\""), "{error}");
    }

    #[test]
    fn modes_never_make_an_owner() {
        assert_eq!(access_mode(&map(&[])).unwrap(), Mode::ReadWrite);
        assert_eq!(access_mode(&map(&[("mode", "ro")])).unwrap(), Mode::Read);
        assert_eq!(access_mode(&map(&[("mode", "wo")])).unwrap(), Mode::Write);
        assert!(access_mode(&map(&[("mode", "owner")])).is_err());
    }

    #[test]
    fn requests_are_the_same_by_meaning() {
        let attributes = |pairs: &[(&str, &str)]| BucketParameters::parse(&map(pairs)).unwrap().attributes("driver");
        assert!(same_request(&attributes(&[("quota", "1Gi")]), &attributes(&[("quota", "1073741824")])));
        assert!(!same_request(&attributes(&[("quota", "1Gi")]), &attributes(&[])));
        assert!(!same_request(&attributes(&[("versioning", "enabled")]), &attributes(&[])));
        assert!(!same_request(&attributes(&[("anonymousAccess", "read")]), &attributes(&[])));
        assert!(same_request(&attributes(&[("anonymousAccess", "none")]), &attributes(&[])));
        let with_more: BTreeMap<_, _> =
            attributes(&[]).into_iter().chain([("note".to_owned(), "mine".to_owned())]).collect();
        assert!(same_request(&with_more, &attributes(&[])));
    }
}
