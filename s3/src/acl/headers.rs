//! Access control lists as headers request them: `x-amz-acl`, or `x-amz-grant-…` (S3 User Guide, "Access control list (ACL) overview",
//! "Setting an ACL").
//!
//! - A grant header is a list of `id="…"` and `uri="…"`, with commas between them.
//! - They are read before the body, so that a refused list costs no upload.

use http::HeaderMap;
use objstore::Store;
use objstore::store::{ACL_GRANTS_MAX, Permission};
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::canned::Canned;
use super::grant::{self, Named, NamedGrantee};
use super::ownership::{self, Setting};
use super::{Kind, NewList, Of, look_up};
use crate::blocking::blocking;
use crate::error::{Detail as _, bad_argument, refuse, says};

const CANNED: &str = "x-amz-acl";
const OWNERSHIP: &str = "x-amz-object-ownership";
/// The prefix of the headers of grants.
const GRANTS: &str = "x-amz-grant-";
/// The headers of grants.
const HEADERS: [(&str, Permission); 5] = [
    ("x-amz-grant-read", Permission::Read),
    ("x-amz-grant-write", Permission::Write),
    ("x-amz-grant-read-acp", Permission::ReadAcp),
    ("x-amz-grant-write-acp", Permission::WriteAcp),
    ("x-amz-grant-full-control", Permission::FullControl),
];

/// The access control list that headers ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListHeaders(Inner);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    Nothing,
    Canned(Canned),
    Grants(Vec<Named>),
}

impl ListHeaders {
    /// Reads the headers.
    pub(crate) fn of(headers: &HeaderMap, of: Of) -> S3Result<Self> {
        let canned =
            canned(headers)?.map(|canned| if canned.is_for(of) { Ok(canned) } else { Err(no_canned(headers)) });
        let grants = grants(headers)?;
        match (canned.transpose()?, grants.is_empty()) {
            (Some(_), false) => {
                let words = "Specifying both Canned ACLs and Header Grants is not allowed";
                Err(says(S3ErrorCode::InvalidRequest, words))
            }
            (Some(canned), true) => Ok(Self(Inner::Canned(canned))),
            (None, false) => Ok(Self(Inner::Grants(grants))),
            (None, true) => Ok(Self(Inner::Nothing)),
        }
    }

    /// Whether the headers ask for no list.
    pub(super) fn is_nothing(&self) -> bool {
        self.0 == Inner::Nothing
    }

    /// Whether the headers give the object to the bucket's owner, under the setting `BucketOwnerPreferred`.
    pub(crate) fn gives_to_bucket_owner(&self) -> bool {
        self.0 == Inner::Canned(Canned::BucketOwnerFullControl)
    }

    /// The list with the ids of its accounts; none if the headers ask for none.
    pub(crate) async fn look_up(self, store: &Store) -> S3Result<Option<NewList>> {
        match self.0 {
            Inner::Nothing => Ok(None),
            Inner::Canned(canned) => Ok(Some(NewList(Kind::Canned(canned)))),
            Inner::Grants(named) => {
                let find = move |store: &Store| Ok(Some(NewList(Kind::Grants(look_up(store, named)?))));
                blocking(store, find).await
            }
        }
    }
}

/// Refuses malformed headers; where ACLs are disabled, also those that would grant access.
pub(crate) fn check(headers: &HeaderMap, enabled: bool) -> S3Result<()> {
    if enabled {
        return ListHeaders::of(headers, Of::Bucket).map(drop);
    }
    let names_grants = headers.keys().any(|name| name.as_str().starts_with(GRANTS));
    match canned(headers)? {
        Some(canned) if !canned.is_in_force() => Err(disabled()),
        _ if names_grants => Err(disabled()),
        _ => Ok(()),
    }
}

/// The ownership and the list that a bucket is made with (S3 API, CreateBucket).
pub(crate) fn check_first(headers: &HeaderMap) -> S3Result<(Option<Setting>, ListHeaders)> {
    let ownership = headers.get(OWNERSHIP).map(|value| ownership::of_header(value.to_str().unwrap_or_default()));
    Ok((ownership.transpose()?, ListHeaders::of(headers, Of::Bucket)?))
}

/// AWS's error for an ACL in a bucket with `BucketOwnerEnforced`.
pub(crate) fn disabled() -> S3Error {
    let hint = "Use grants or the bucket's policy, or enable ACLs by the bucket's Object Ownership.";
    refuse(S3ErrorCode::AccessControlListNotSupported, hint)
}

fn canned(headers: &HeaderMap) -> S3Result<Option<Canned>> {
    let mut given = headers.get_all(CANNED).iter();
    let Some(name) = given.next() else { return Ok(None) };
    // A condition of a policy sees the first alone.
    let found = name.to_str().ok().filter(|_| given.next().is_none()).and_then(Canned::parse);
    found.map(Some).ok_or_else(|| no_canned(headers))
}

fn no_canned(headers: &HeaderMap) -> S3Error {
    let name = headers.get(CANNED).map(|name| String::from_utf8_lossy(name.as_bytes())).unwrap_or_default();
    bad_argument("Invalid Argument", CANNED, name).hint("It is no canned ACL of this resource.")
}

fn grants(headers: &HeaderMap) -> S3Result<Vec<Named>> {
    let mut named = Vec::new();
    for (name, permission) in HEADERS {
        let mut given = headers.get_all(name).iter();
        let Some(value) = given.next() else { continue };
        if given.next().is_some() {
            return Err(bad_argument("Invalid Argument", name, "").hint("The header is given twice; join its values."));
        }
        let text = value.to_str().map_err(|_| bad_argument("Invalid Argument", name, ""))?;
        for grantee in text.split(',') {
            named.push(Named { grantee: grantee_of(grantee.trim(), name)?, permission });
            if named.len() > ACL_GRANTS_MAX {
                return Err(too_many());
            }
        }
    }
    Ok(named)
}

/// `id="…"` or `uri="…"`; the quotes may be left out.
fn grantee_of(text: &str, header: &str) -> S3Result<NamedGrantee> {
    let malformed = || bad_argument("Argument format not recognized", header, text);
    let (kind, value) = text.split_once('=').ok_or_else(malformed)?;
    let value = value.trim();
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    match kind.trim() {
        "id" => Ok(NamedGrantee::Id(bare.to_owned())),
        "uri" => NamedGrantee::group(bare),
        "emailAddress" => Err(grant::by_email()),
        _ => Err(malformed()),
    }
}

/// The error for a list with more grants than AWS accepts.
pub(super) fn too_many() -> S3Error {
    refuse(S3ErrorCode::MalformedACLError, format!("An ACL has at most {ACL_GRANTS_MAX} grants."))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use objstore::store::Grantee;

    use super::*;

    fn of(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn code<T>(result: S3Result<T>) -> String {
        result.err().map(|error| error.code().as_str().to_owned()).unwrap_or_default()
    }

    #[test]
    fn where_acls_are_disabled_only_what_holds_is_taken() {
        let table = [
            ("x-amz-acl", "public-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "public-read-write", "AccessControlListNotSupported"),
            ("x-amz-acl", "authenticated-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "aws-exec-read", "AccessControlListNotSupported"),
            ("x-amz-acl", "log-delivery-write", "AccessControlListNotSupported"),
            ("x-amz-acl", "private", ""),
            ("x-amz-acl", "bucket-owner-full-control", ""),
            ("x-amz-acl", "bucket-owner-read", ""),
            ("x-amz-acl", "Private", "InvalidArgument"),
            ("x-amz-acl", "", "InvalidArgument"),
            ("x-amz-grant-read", "id=1", "AccessControlListNotSupported"),
            ("x-amz-grant-anything", "id=1", "AccessControlListNotSupported"),
            ("x-amz-meta-acl", "public-read", ""),
        ];
        for (name, value, expected) in table {
            assert_eq!(code(check(&of(&[(name, value)]), false)), expected, "{name}: {value}");
        }
    }

    #[test]
    fn headers_of_grants_are_lists_of_ids_and_uris() {
        let all = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"";
        let headers = of(&[("x-amz-grant-read", &format!("id=\"alice\", {all} ,id=bob")), ("x-amz-grant-write", all)]);
        let named = |grantee, permission| Named { grantee, permission };
        let id = |name: &str| NamedGrantee::Id(name.to_owned());
        let group = NamedGrantee::Group(Grantee::AllUsers);
        let expected = vec![
            named(id("alice"), Permission::Read),
            named(group.clone(), Permission::Read),
            named(id("bob"), Permission::Read),
            named(group, Permission::Write),
        ];
        assert_eq!(ListHeaders::of(&headers, Of::Object).unwrap(), ListHeaders(Inner::Grants(expected)));
    }

    #[test]
    fn headers_that_name_no_list_are_refused() {
        let many = vec!["id=a"; ACL_GRANTS_MAX + 1].join(",");
        let table = [
            (vec![("x-amz-acl", "public")], "InvalidArgument"),
            (vec![("x-amz-acl", "log-delivery-write")], "InvalidArgument"),
            (vec![("x-amz-grant-read", "alice")], "InvalidArgument"),
            (vec![("x-amz-grant-read", "")], "InvalidArgument"),
            (vec![("x-amz-grant-read", "id=a,")], "InvalidArgument"),
            (vec![("x-amz-grant-read", "ID=a")], "InvalidArgument"),
            (vec![("x-amz-grant-read", "uri=http://nobody")], "InvalidArgument"),
            (vec![("x-amz-grant-read", "emailAddress=\"a@b.c\"")], "MethodNotAllowed"),
            (vec![("x-amz-grant-read", many.as_str())], "MalformedACLError"),
            (vec![("x-amz-grant-read", "id=a"), ("x-amz-acl", "private")], "InvalidRequest"),
            // What a policy's condition was judged by and what is done never differ.
            (vec![("x-amz-grant-read", "id=a"), ("x-amz-grant-read", "id=b")], "InvalidArgument"),
            (vec![("x-amz-acl", "private"), ("x-amz-acl", "public-read")], "InvalidArgument"),
        ];
        for (headers, expected) in table {
            assert_eq!(code(ListHeaders::of(&of(&headers), Of::Object)), expected, "{headers:?}");
        }
        assert!(ListHeaders::of(&of(&[("x-amz-acl", "log-delivery-write")]), Of::Bucket).is_ok());
    }
}
