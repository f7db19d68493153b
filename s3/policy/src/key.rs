//! Condition keys of policies.
//!
//! - Case is ignored, except for the tag name in keys that contain one.
//! - All keys of S3 and all global keys are known (Service authorization reference, Amazon S3; IAM User Guide, AWS
//!   global condition context keys).
//! - Some never have a value in this store: see [`Key::has_values`]. A statement that depends on one would not do what
//!   it says, so such a policy is refused.

/// A condition key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name in lower case; for a key with a tag name, up to the `/`.
    name: String,
    /// The tag name.
    tag: Option<String>,
}

impl Key {
    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        let (name, tag) = match name.split_once('/') {
            None => (name.to_ascii_lowercase(), None),
            Some((_, "")) => return None,
            Some((family, tag)) => (format!("{}/", family.to_ascii_lowercase()), Some(tag.to_owned())),
        };
        let known = WITH_VALUES.contains(&name.as_str()) || WITHOUT_VALUES.contains(&name.as_str());
        known.then_some(Self { name, tag })
    }

    /// Whether a request can have a value for it.
    pub(crate) fn has_values(&self) -> bool {
        WITH_VALUES.contains(&self.name.as_str())
    }

    /// The name as a policy writes it, in lower case except for the tag.
    pub(crate) fn shown(&self) -> String {
        format!("{}{}", self.name, self.tag.as_deref().unwrap_or_default())
    }

    /// The name in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its value can differ between objects of one request.
    pub(super) fn is_of_object(&self) -> bool {
        matches!(self.name.as_str(), "s3:existingobjecttag/" | "s3:versionid")
    }

    /// Whether its value may depend on the request's body, or differ between objects.
    pub(crate) fn is_known_late(&self) -> bool {
        self.is_of_object()
            || self.name.starts_with("s3:object-lock-")
            || matches!(self.name.as_str(), "s3:requestobjecttag/" | "s3:requestobjecttagkeys")
    }

    /// The tag name.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

/// Keys for which requests have values. A key with a tag name ends in `/`.
const WITH_VALUES: &[&str] = &[
    "aws:currenttime",
    "aws:epochtime",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalisawsservice",
    "aws:principaltype",
    "aws:referer",
    "aws:requestedregion",
    "aws:resourceaccount",
    "aws:securetransport",
    "aws:sourceip",
    "aws:useragent",
    "aws:userid",
    "aws:username",
    "aws:viaawsservice",
    "s3:authtype",
    "s3:delimiter",
    "s3:existingobjecttag/",
    "s3:if-match",
    "s3:if-none-match",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:objectcreationoperation",
    "s3:prefix",
    "s3:requestobjecttag/",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
    "s3:signatureage",
    "s3:signatureversion",
    "s3:tlsversion",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-bucket-namespace",
    "s3:x-amz-content-sha256",
    "s3:x-amz-copy-source",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-object-ownership",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
];

/// AWS's keys for which no request has a value here: organizations, networks, tokens and tags that this store does not
/// have.
const WITHOUT_VALUES: &[&str] = &[
    "aws:assumedroot",
    "aws:calledvia",
    "aws:calledviafirst",
    "aws:calledvialast",
    "aws:chatbotsourcearn",
    "aws:ec2instancesourceprivateipv4",
    "aws:ec2instancesourcevpc",
    "aws:federatedprovider",
    "aws:multifactorauthage",
    "aws:multifactorauthpresent",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:principalservicename",
    "aws:principalservicenameslist",
    "aws:principaltag/",
    "aws:requesttag/",
    "aws:resourceorgid",
    "aws:resourceorgpaths",
    "aws:resourcetag/",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceidentity",
    "aws:sourceorgid",
    "aws:sourceorgpaths",
    "aws:sourceowner",
    "aws:sourcevpc",
    "aws:sourcevpcarn",
    "aws:sourcevpce",
    "aws:tagkeys",
    "aws:tokenissuetime",
    "aws:vpceaccount",
    "aws:vpceorgid",
    "aws:vpceorgpaths",
    "aws:vpcsourceip",
    "s3:accessgrantsinstancearn",
    "s3:accesspointnetworkorigin",
    "s3:buckettag/",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:existingjoboperation",
    "s3:existingjobpriority",
    "s3:inventoryaccessibleoptionalfields",
    "s3:isreplicationpauserequest",
    "s3:jobsuspendedcause",
    "s3:locationconstraint",
    "s3:requestjoboperation",
    "s3:requestjobpriority",
    "s3:resourcetag/",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_and_only_a_tag_keeps_its_case() {
        assert_eq!(Key::parse("AWS:SourceIP").unwrap().name(), "aws:sourceip");
        let tag = Key::parse("s3:ExistingObjectTag/Team/a").unwrap();
        assert_eq!((tag.name(), tag.tag()), ("s3:existingobjecttag/", Some("Team/a")));
        for name in ["s3:nothing", "aws:SourceIp/x", "s3:ExistingObjectTag", "s3:ExistingObjectTag/", "kms:x", ""] {
            assert_eq!(Key::parse(name), None, "{name}");
        }
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(WITH_VALUES.is_sorted() && WITHOUT_VALUES.is_sorted());
    }
}
