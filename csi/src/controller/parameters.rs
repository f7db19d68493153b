//! Parameters of a StorageClass and of a VolumeAttributesClass.
//!
//! - Both have the same keys. Those of a VolumeAttributesClass (`mutable_parameters`) take precedence, and can be changed
//!   later (CSI v1.12, CreateVolume and ControllerModifyVolume).
//! - A StorageClass alone has [`CLASS_KEYS`]: they say what a volume is from its beginning, and are never changed.
//! - Unknown keys are refused, except those that the Kubernetes sidecars add.

use std::collections::{BTreeMap, HashMap};

use objstore::store::{Bucket, Modification, RootAttributes, Versioning};
use objstore::{Error, Result};

use super::template::{self, FROM_BUCKET, FROM_PREFIX, Template};

/// The prefix of keys that the sidecars add.
const SIDECAR_PREFIX: &str = "csi.storage.k8s.io/";
/// The most days of a lifecycle rule.
const DAYS_MAX: u32 = 36_500;

/// The parsed parameters of a new volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// `uid`, `gid` and `mode` of the root directory of a new volume; a clone keeps its source's.
    pub(crate) root: RootAttributes,
    /// `versioning`: whether the bucket has versioning.
    pub(crate) versioning: Versioning,
    /// `secondWriter`: what a second node that writes brings about. With it the volume has one writer also in the mode
    /// MULTI_NODE_MULTI_WRITER, since no access mode of Kubernetes is MULTI_NODE_SINGLE_WRITER.
    pub(crate) second_writer: Option<SecondWriter>,
    /// What else is set when the volume is made: the lifecycle rule, and what a VolumeAttributesClass says of the root, also
    /// of a clone's.
    pub(crate) initial: Modification,
}

/// What a second node that writes brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondWriter {
    /// It is refused.
    Refused,
    /// It becomes the writer, and the first one may only read.
    FencesTheFirst,
}

/// The attribute with the policy for second writers.
const SECOND_WRITER: &str = "csi.secondWriter";

/// The keys of a StorageClass that a VolumeAttributesClass does not have.
const CLASS_KEYS: [&str; 3] = ["secondWriter", FROM_BUCKET, FROM_PREFIX];

impl SecondWriter {
    /// The policy of a volume, if its class has one.
    pub(super) fn of(bucket: &Bucket) -> Option<Self> {
        bucket.attributes.get(SECOND_WRITER).and_then(|value| Self::parse(value).ok())
    }

    fn parse(value: &str) -> Result<Self> {
        match value {
            "refuse" => Ok(Self::Refused),
            "fence" => Ok(Self::FencesTheFirst),
            _ => Err(Error::invalid("secondWriter", value, "use refuse or fence")),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refuse",
            Self::FencesTheFirst => "fence",
        }
    }
}

impl Parameters {
    /// Parses the parameters of a StorageClass.
    pub(crate) fn parse(given: &HashMap<String, String>) -> Result<Self> {
        Self::with_mutable(given, &HashMap::new())
    }

    /// Parses the attributes of an inline volume, which has no class.
    pub(crate) fn of_inline(given: &HashMap<String, String>) -> Result<Self> {
        match CLASS_KEYS.iter().find(|key| given.contains_key(**key)) {
            Some(key) => Err(Error::invalid("attribute", *key, "an inline volume has no class; leave it out")),
            None => Self::parse(given),
        }
    }

    /// Parses the parameters of a StorageClass and of a VolumeAttributesClass, which take precedence.
    pub(crate) fn with_mutable(given: &HashMap<String, String>, mutable: &HashMap<String, String>) -> Result<Self> {
        let second_writer = given.get("secondWriter").map(|value| SecondWriter::parse(value)).transpose()?;
        // The volume's creation looks it up.
        Template::parse(given)?;
        let mut changeable = given.clone();
        changeable.retain(|key, _| !CLASS_KEYS.contains(&key.as_str()));
        let (given, mutable) = (modification(&changeable)?, modification(mutable)?);
        let (of_class, over, default) = (given.root, mutable.root, RootAttributes::default());
        Ok(Self {
            root: RootAttributes {
                uid: over.uid.or(of_class.uid).unwrap_or(default.uid),
                gid: over.gid.or(of_class.gid).unwrap_or(default.gid),
                mode: over.mode.or(of_class.mode).unwrap_or(default.mode),
            },
            versioning: mutable.versioning.or(given.versioning).unwrap_or_default(),
            second_writer,
            initial: Modification {
                versioning: None,
                root: over,
                noncurrent_days: mutable.noncurrent_days.or(given.noncurrent_days),
                abort_upload_days: mutable.abort_upload_days.or(given.abort_upload_days),
            },
        })
    }

    /// The attributes to store with the bucket, by which a repeated request is recognized.
    pub(crate) fn attributes(self) -> BTreeMap<String, String> {
        let versioning = match self.versioning {
            Versioning::Enabled => "enabled",
            Versioning::Disabled => "disabled",
            Versioning::Suspended => "suspended",
        };
        let mut attributes = BTreeMap::from([
            ("csi.uid".to_owned(), self.root.uid.to_string()),
            ("csi.gid".to_owned(), self.root.gid.to_string()),
            ("csi.mode".to_owned(), format!("{:04o}", self.root.mode)),
            ("csi.versioning".to_owned(), versioning.to_owned()),
        ]);
        let days = [self.initial.noncurrent_days, self.initial.abort_upload_days];
        for (key, days) in OPTIONAL.into_iter().zip(days) {
            let text = days.map(|days| days.map_or("none".to_owned(), |days| days.to_string()));
            attributes.extend(text.map(|text| (key.to_owned(), text)));
        }
        attributes.extend(self.second_writer.map(|policy| (SECOND_WRITER.to_owned(), policy.name().to_owned())));
        attributes
    }
}

/// The attributes that only some volumes have.
pub(super) const OPTIONAL: [&str; 5] =
    ["csi.noncurrentDays", "csi.abortUploadDays", SECOND_WRITER, template::ATTRIBUTE, template::PREFIX_ATTRIBUTE];

/// Parses the parameters of a VolumeAttributesClass. CSI v1.12, ControllerModifyVolume.
pub(super) fn modification(given: &HashMap<String, String>) -> Result<Modification> {
    let mut parsed = Modification::default();
    for (key, value) in given {
        match key.as_str() {
            "uid" => parsed.root.uid = Some(number("uid", value)?),
            "gid" => parsed.root.gid = Some(number("gid", value)?),
            "mode" => parsed.root.mode = Some(permissions(value)?),
            "versioning" => parsed.versioning = Some(versioning(value)?),
            "noncurrentDays" => parsed.noncurrent_days = Some(days("noncurrentDays", value)?),
            "abortUploadDays" => parsed.abort_upload_days = Some(days("abortUploadDays", value)?),
            added if added.starts_with(SIDECAR_PREFIX) => {}
            _ => {
                let known = "a StorageClass and a VolumeAttributesClass have the parameters \"uid\", \"gid\", \"mode\", \
                             \"versioning\", \"noncurrentDays\" and \"abortUploadDays\", and a StorageClass \"secondWriter\", \"fromBucket\" and \"fromPrefix\" as well";
                return Err(Error::invalid("parameter", key, known));
            }
        }
    }
    Ok(parsed)
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
        "suspended" => Ok(Versioning::Suspended),
        "disabled" => Ok(Versioning::Disabled),
        _ => Err(Error::invalid("versioning", value, "use enabled, suspended or disabled")),
    }
}

/// Days of a lifecycle rule; `None` is `none`, which removes the rule.
fn days(what: &'static str, value: &str) -> Result<Option<u32>> {
    let days = value.parse().ok().filter(|days| (1..=DAYS_MAX).contains(days)).map(Some);
    let days = days.or_else(|| (value == "none").then_some(None));
    days.ok_or_else(|| Error::invalid(what, value, format!("use a number of days from 1 to {DAYS_MAX}, or none")))
}

#[cfg(test)]
mod tests {
    use objstore::store::RootChange;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn parse(pairs: &[(&str, &str)]) -> Result<Parameters> {
        Parameters::parse(&map(pairs))
    }

    #[test]
    fn parameters_are_read_and_the_sidecars_passed_over() {
        assert_eq!(parse(&[("csi.storage.k8s.io/pvc/name", "data")]).unwrap(), Parameters::default());
        let all = parse(&[("uid", "1000"), ("gid", "100"), ("mode", "0770"), ("versioning", "enabled")]).unwrap();
        assert_eq!(all.root, RootAttributes { uid: 1000, gid: 100, mode: 0o770 });
        assert_eq!(all.versioning, Versioning::Enabled);
        assert_eq!(all.attributes()["csi.mode"], "0770");
        assert_eq!(all.attributes().len(), 4, "volumes of earlier versions have these");
        assert_eq!(all.initial, Modification::default());
    }

    #[test]
    fn a_class_says_what_becomes_of_a_second_writer_and_later_changes_do_not() {
        assert_eq!(parse(&[]).unwrap().second_writer, None);
        let fence = parse(&[("secondWriter", "fence")]).unwrap();
        assert_eq!(fence.second_writer, Some(SecondWriter::FencesTheFirst));
        assert_eq!(fence.attributes()["csi.secondWriter"], "fence");
        assert_eq!(parse(&[("secondWriter", "refuse")]).unwrap().second_writer, Some(SecondWriter::Refused));
        assert!(parse(&[("secondWriter", "both")]).unwrap_err().to_string().contains("secondWriter"));
        assert!(modification(&map(&[("secondWriter", "fence")])).is_err());
        assert!(Parameters::of_inline(&map(&[("secondWriter", "fence")])).is_err());
    }

    #[test]
    fn mutable_parameters_take_precedence_and_reach_the_root_of_a_clone() {
        let class = map(&[("uid", "1"), ("gid", "2"), ("versioning", "enabled"), ("noncurrentDays", "30")]);
        let mutable = map(&[("gid", "3"), ("versioning", "suspended"), ("abortUploadDays", "none")]);
        let parameters = Parameters::with_mutable(&class, &mutable).unwrap();
        assert_eq!(parameters.root, RootAttributes { uid: 1, gid: 3, mode: 0o755 });
        assert_eq!(parameters.versioning, Versioning::Suspended);
        let root = RootChange { gid: Some(3), ..RootChange::default() };
        let (noncurrent_days, abort_upload_days) = (Some(Some(30)), Some(None));
        let expected = Modification { root, noncurrent_days, abort_upload_days, versioning: None };
        assert_eq!(parameters.initial, expected);
        assert_eq!(parameters.attributes()["csi.noncurrentDays"], "30");
        assert_eq!(parameters.attributes()["csi.abortUploadDays"], "none");
    }

    #[test]
    fn bad_parameters_are_refused_by_name() {
        for (key, value) in [
            ("fstype", "ext4"),
            ("iops", "100"),
            ("uid", "root"),
            ("uid", "-1"),
            ("gid", "4294967295"),
            ("mode", "999"),
            ("mode", "07777"),
            ("mode", ""),
            ("versioning", "on"),
            ("noncurrentDays", "0"),
            ("noncurrentDays", "36501"),
            ("abortUploadDays", "-1"),
            ("abortUploadDays", ""),
        ] {
            let error = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
            let mutable = modification(&map(&[(key, value)])).unwrap_err().to_string();
            assert_eq!(mutable, error);
        }
    }
}
