//! The name of a request's operation in access logs: `REST.` method `.` resource (S3 User Guide, "Amazon S3 server
//! access log format", Operation).
//!
//! - The name follows from the URL, so that a request which was refused before it was routed has one too.

use http::Method;

/// Resources of a bucket whose name in the log differs from their URL parameter.
const OF_BUCKET: [(&str, &str); 8] = [
    ("delete", "MULTI_OBJECT_DELETE"),
    ("logging", "LOGGING_STATUS"),
    ("object-lock", "OBJECT_LOCK_CONFIGURATION"),
    ("ownershipControls", "OWNERSHIP_CONTROLS"),
    ("policy", "BUCKETPOLICY"),
    ("policyStatus", "POLICY_STATUS"),
    ("publicAccessBlock", "PUBLIC_ACCESS_BLOCK"),
    ("requestPayment", "REQUEST_PAYMENT"),
];
/// Resources of an object whose name in the log differs from their URL parameter.
const OF_OBJECT: [(&str, &str); 4] = [
    ("attributes", "OBJECT_ATTRIBUTES"),
    ("legal-hold", "OBJECT_LOCK_LEGALHOLD"),
    ("retention", "OBJECT_LOCK_RETENTION"),
    ("tagging", "OBJECT_TAGGING"),
];

/// The operation of a request, by its method and its URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    /// The operation that the request was routed to, or `-`.
    pub(crate) operation: &'a str,
    /// The subresource that its URL names, or `""`.
    pub(crate) subresource: &'a str,
    /// Whether its URL names a part.
    pub(crate) part: bool,
    /// Whether its path names an object.
    pub(crate) of_object: bool,
    /// Whether it came to the website listener.
    pub(crate) website: bool,
}

impl Asked<'_> {
    /// The name of the operation in a line.
    pub(super) fn name(&self) -> String {
        let method = self.method;
        match self.operation {
            _ if self.website => format!("WEBSITE.{method}.OBJECT"),
            "CopyObject" => "REST.COPY.OBJECT".into(),
            "UploadPartCopy" => "REST.COPY.PART".into(),
            _ if method == Method::OPTIONS => "REST.OPTIONS.PREFLIGHT".into(),
            _ => format!("REST.{method}.{}", self.resource()),
        }
    }

    fn resource(&self) -> String {
        let table: &[(&str, &str)] = if self.of_object { &OF_OBJECT } else { &OF_BUCKET };
        if let Some((_, name)) = table.iter().find(|(known, _)| *known == self.subresource) {
            return (*name).to_owned();
        }
        match self.subresource {
            "" if self.of_object => "OBJECT".into(),
            "" => "BUCKET".into(),
            "uploadId" if self.part => "PART".into(),
            "uploadId" => "UPLOAD".into(),
            "versions" => "BUCKETVERSIONS".into(),
            other => other.to_ascii_uppercase().replace('-', "_"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_called_as_aws_calls_them() {
        let table = [
            ("GetObject", "GET", true, "", "REST.GET.OBJECT"),
            ("-", "GET", true, "", "REST.GET.OBJECT"),
            ("HeadObject", "HEAD", true, "", "REST.HEAD.OBJECT"),
            ("CopyObject", "PUT", true, "", "REST.COPY.OBJECT"),
            ("UploadPartCopy", "PUT", true, "part", "REST.COPY.PART"),
            ("UploadPart", "PUT", true, "part", "REST.PUT.PART"),
            ("CompleteMultipartUpload", "POST", true, "uploadId", "REST.POST.UPLOAD"),
            ("CreateMultipartUpload", "POST", true, "uploads", "REST.POST.UPLOADS"),
            ("ListObjectsV2", "GET", false, "", "REST.GET.BUCKET"),
            ("ListObjectVersions", "GET", false, "versions", "REST.GET.BUCKETVERSIONS"),
            ("GetBucketVersioning", "GET", false, "versioning", "REST.GET.VERSIONING"),
            ("GetBucketLogging", "GET", false, "logging", "REST.GET.LOGGING_STATUS"),
            ("GetBucketPolicy", "GET", false, "policy", "REST.GET.BUCKETPOLICY"),
            ("DeleteObjects", "POST", false, "delete", "REST.POST.MULTI_OBJECT_DELETE"),
            ("GetObjectTagging", "GET", true, "tagging", "REST.GET.OBJECT_TAGGING"),
            ("GetBucketTagging", "GET", false, "tagging", "REST.GET.TAGGING"),
            ("GetBucketAcl", "GET", false, "acl", "REST.GET.ACL"),
            ("-", "OPTIONS", true, "", "REST.OPTIONS.PREFLIGHT"),
        ];
        for (operation, method, of_object, named, expected) in table {
            let (method, part) = (method.parse().unwrap(), named == "part");
            let subresource = if part { "uploadId" } else { named };
            let asked = Asked { method: &method, operation, subresource, part, of_object, website: false };
            assert_eq!(asked.name(), expected, "{operation} {named}");
        }
        let page = Asked {
            method: &Method::GET,
            operation: "GetWebsiteObject",
            subresource: "",
            part: false,
            of_object: false,
            website: true,
        };
        assert_eq!(page.name(), "WEBSITE.GET.OBJECT");
    }
}
