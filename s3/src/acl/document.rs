//! The XML document of an access control list: `AccessControlPolicy` (S3 API, GetObjectAcl, PutObjectAcl).

use objstore::Store;
use objstore::store::{ACL_GRANTS_MAX, AccessList, Grantee};
use s3s::dto::{AccessControlPolicy, Permission, Type};
use s3s::{S3ErrorCode, S3Response, S3Result};

use super::grant::{self, EC2_ID, Named, NamedGrantee};
use super::headers::too_many;
use crate::error::{OrRefuse as _, refuse};
use crate::xml::{Document, element};

const OPEN: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
const GRANTEE: &str = "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"";

/// An access control list in the form of its document.
#[derive(Debug)]
pub(crate) struct Shown {
    owner: String,
    grants: Vec<(ShownGrantee, &'static str)>,
}

#[derive(Debug)]
enum ShownGrantee {
    /// An account by its name, which is its canonical id.
    Account(String),
    /// A canonical id that belongs to no account of this store.
    Id(&'static str),
    Group(&'static str),
}

impl Shown {
    /// The list of a bucket or object of the account with this name; an absent list is `private`.
    pub(crate) fn of(store: &Store, owner: String, list: Option<&AccessList>) -> S3Result<Self> {
        let private = AccessList::private();
        let mut grants = Vec::new();
        for one in &list.unwrap_or(&private).grants {
            let Some(permission) = grant::permission_name(one.permission()) else { continue };
            let grantee = match one.grantee() {
                Some(Grantee::Owner) => ShownGrantee::Account(owner.clone()),
                Some(Grantee::Account(id)) => ShownGrantee::Account(store.account_name(id).or_refuse()?),
                Some(Grantee::Ec2) => ShownGrantee::Id(EC2_ID),
                Some(group) => match grant::uri(group) {
                    Some(uri) => ShownGrantee::Group(uri),
                    None => continue,
                },
                None => continue,
            };
            grants.push((grantee, permission));
        }
        Ok(Self { owner, grants })
    }

    /// A response with the document, whose elements are in the order of AWS.
    pub(crate) fn answer<T>(&self, output: T) -> S3Response<T> {
        let mut response = S3Response::new(output);
        response.extensions.insert(Document(self.document().into()));
        response
    }

    fn document(&self) -> String {
        let mut text = format!("{OPEN}<Owner>");
        element(&mut text, "ID", &self.owner);
        element(&mut text, "DisplayName", &self.owner);
        text.push_str("</Owner><AccessControlList>");
        for (grantee, permission) in &self.grants {
            text.push_str(GRANTEE);
            match grantee {
                ShownGrantee::Account(name) => {
                    text.push_str("CanonicalUser\">");
                    element(&mut text, "ID", name);
                    element(&mut text, "DisplayName", name);
                }
                ShownGrantee::Id(id) => {
                    text.push_str("CanonicalUser\">");
                    element(&mut text, "ID", id);
                }
                ShownGrantee::Group(uri) => {
                    text.push_str("Group\">");
                    element(&mut text, "URI", uri);
                }
            }
            text.push_str("</Grantee>");
            element(&mut text, "Permission", permission);
            text.push_str("</Grant>");
        }
        text.push_str("</AccessControlList></AccessControlPolicy>");
        text
    }
}

/// Reads a document: the canonical id of the owner that it names, and its grants.
pub(super) fn read(document: AccessControlPolicy) -> S3Result<(Option<String>, Vec<Named>)> {
    let given = document.grants.unwrap_or_default();
    if given.len() > ACL_GRANTS_MAX {
        return Err(too_many());
    }
    let malformed = |hint: &str| refuse(S3ErrorCode::MalformedACLError, hint);
    let mut named = Vec::with_capacity(given.len());
    for one in given {
        let (Some(grantee), Some(permission)) = (one.grantee, one.permission) else {
            return Err(malformed("A grant has a grantee and a permission."));
        };
        let permission = grant::permission(permission.as_str());
        let permission = permission.ok_or_else(|| malformed("The permission of a grant is none of S3's."))?;
        if grantee.email_address.is_some() || grantee.type_.as_str() == Type::AMAZON_CUSTOMER_BY_EMAIL {
            return Err(grant::by_email());
        }
        let grantee = match (grantee.type_.as_str(), grantee.id, grantee.uri) {
            (Type::CANONICAL_USER, Some(id), None) => NamedGrantee::Id(id),
            (Type::GROUP, None, Some(uri)) => NamedGrantee::group(&uri)?,
            _ => return Err(malformed("A grantee is a CanonicalUser with an ID or a Group with a URI.")),
        };
        named.push(Named { grantee, permission });
    }
    Ok((document.owner.and_then(|owner| owner.id), named))
}

/// Whether a document grants full control to the owner and nothing else, which holds where ACLs are disabled.
pub(super) fn is_full_control(document: &AccessControlPolicy, owner: &str) -> bool {
    let [grant] = document.grants.as_deref().unwrap_or_default() else { return false };
    let is_owner = |id: Option<&String>| id.is_some_and(|id| id == owner);
    let named = document.owner.as_ref().is_none_or(|named| is_owner(named.id.as_ref()));
    let grantee = grant.grantee.as_ref().is_some_and(|grantee| is_owner(grantee.id.as_ref()));
    named && grantee && grant.permission.as_ref().is_some_and(|what| what.as_str() == Permission::FULL_CONTROL)
}

#[cfg(test)]
mod tests {
    use s3s::dto::{Grant, Grantee as GivenGrantee};

    use super::*;
    use crate::response::person;

    fn grant(kind: &'static str, id: Option<&str>, uri: Option<&str>, permission: &'static str) -> Grant {
        let grantee = GivenGrantee {
            display_name: None,
            email_address: None,
            id: id.map(str::to_owned),
            type_: Type::from_static(kind),
            uri: uri.map(str::to_owned),
        };
        Grant { grantee: Some(grantee), permission: Some(Permission::from_static(permission)) }
    }

    fn list(grants: Vec<Grant>) -> AccessControlPolicy {
        AccessControlPolicy { grants: Some(grants), owner: Some(person("alice")) }
    }

    #[test]
    fn only_what_holds_can_be_set_where_acls_are_disabled() {
        let full = |id: &str| grant(Type::CANONICAL_USER, Some(id), None, "FULL_CONTROL");
        let table = [
            (vec![full("alice")], true),
            (vec![grant(Type::CANONICAL_USER, Some("alice"), None, "READ")], false),
            (vec![full("alice"), full("bob")], false),
            (vec![full("bob")], false),
            (Vec::new(), false),
        ];
        for (grants, expected) in table {
            assert_eq!(is_full_control(&list(grants.clone()), "alice"), expected, "{grants:?}");
        }
        assert!(!is_full_control(&list(vec![full("alice")]), "bob"));
    }

    #[test]
    fn a_document_that_names_no_grantee_or_permission_is_refused() {
        let all = Some("http://acs.amazonaws.com/groups/global/AllUsers");
        let email = {
            let mut grant = grant(Type::AMAZON_CUSTOMER_BY_EMAIL, None, None, "READ");
            grant.grantee.as_mut().unwrap().email_address = Some("a@b.c".into());
            grant
        };
        let table = [
            (vec![grant(Type::CANONICAL_USER, Some("bob"), None, "READ")], ""),
            (vec![grant(Type::GROUP, None, all, "WRITE_ACP")], ""),
            (vec![grant(Type::GROUP, Some("bob"), None, "READ")], "MalformedACLError"),
            (vec![grant(Type::CANONICAL_USER, None, all, "READ")], "MalformedACLError"),
            (vec![grant(Type::CANONICAL_USER, Some("bob"), None, "LOOK")], "MalformedACLError"),
            (vec![Grant::default()], "MalformedACLError"),
            (vec![grant(Type::GROUP, None, Some("http://x"), "READ")], "InvalidArgument"),
            (vec![email], "MethodNotAllowed"),
            (vec![grant(Type::CANONICAL_USER, Some("b"), None, "READ"); ACL_GRANTS_MAX], ""),
            (vec![grant(Type::CANONICAL_USER, Some("b"), None, "READ"); ACL_GRANTS_MAX + 1], "MalformedACLError"),
        ];
        for (grants, code) in table {
            let found = read(list(grants.clone())).err();
            let found = found.map(|error| error.code().as_str().to_owned()).unwrap_or_default();
            assert_eq!(found, code, "{:?}", grants.first());
        }
    }

    /// S3 API, GetObjectAcl, "Examples".
    #[test]
    fn the_document_is_that_of_aws_letter_by_letter() {
        let shown = Shown {
            owner: "alice".into(),
            grants: vec![
                (ShownGrantee::Account("alice".into()), "FULL_CONTROL"),
                (ShownGrantee::Account("b<b".into()), "READ"),
                (ShownGrantee::Group("http://acs.amazonaws.com/groups/global/AllUsers"), "READ"),
            ],
        };
        let xsi = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";
        let expected = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Owner><ID>alice</ID><DisplayName>alice</DisplayName></Owner><AccessControlList>\
             <Grant><Grantee {xsi} xsi:type=\"CanonicalUser\"><ID>alice</ID><DisplayName>alice</DisplayName></Grantee>\
             <Permission>FULL_CONTROL</Permission></Grant>\
             <Grant><Grantee {xsi} xsi:type=\"CanonicalUser\"><ID>b&lt;b</ID><DisplayName>b&lt;b</DisplayName></Grantee>\
             <Permission>READ</Permission></Grant>\
             <Grant><Grantee {xsi} xsi:type=\"Group\">\
             <URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>\
             <Permission>READ</Permission></Grant>\
             </AccessControlList></AccessControlPolicy>"
        );
        assert_eq!(shown.document(), expected);
    }
}
