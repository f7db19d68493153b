//! S3 attributes of an object, shown as extended attributes `user.s3.*` of its file.
//!
//! - They are views of the stored attributes: a HEAD shows what a mount set at once, and the other way round.
//! - Headers, user metadata and tags can be set and removed, within the limits of S3. Entity tag, checksums and version
//!   follow from the content and cannot be set (EPERM).
//! - Setting one changes the ctime, but neither the entity tag nor Last-Modified. Of a version under object lock only
//!   tags can be set, as on S3.
//! - An S3 metadata key that is too long for the name of an extended attribute (255 bytes) can be neither seen nor
//!   changed here.

use bytes::Bytes;

use super::flags::Touching;
use super::session::Volume;
use super::types::{Change, ROOT_INO, XattrMode};
use super::xattr::check_mode;
use crate::core::Named;
use crate::error::{Posix, Result};
use crate::record::bucket::VersioningState;
use crate::record::inode::{Inode, InodeKind, Object};
use crate::store::words;
use crate::tree::{Tx, order_of, version_id};

const SPACE: &str = "user.s3.";
const ETAG: &str = "etag";
const VERSION: &str = "version-id";
const CHECKSUM: &str = "checksum.";
const TAG: &str = "tag.";
const METADATA: &str = "meta.";
/// XATTR_NAME_MAX
const NAME_BYTES_MAX: usize = 255;

/// An S3 attribute as an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ObjectAttribute {
    /// The entity tag.
    ETag,
    /// The version's id, where versions are kept.
    Version,
    /// A checksum, by its algorithm in lower case.
    Checksum(String),
    /// A header that S3 returns with the object.
    Header(Header),
    /// A tag, by its name.
    Tag(String),
    /// User metadata, by its name without `x-amz-meta-`.
    Metadata(String),
    /// An unknown name.
    Unknown,
}

/// A header stored with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Type,
    Cache,
    Disposition,
    Encoding,
    Language,
    Expires,
}

impl Header {
    const ALL: [Self; 6] = [Self::Type, Self::Cache, Self::Disposition, Self::Encoding, Self::Language, Self::Expires];

    fn name(self) -> &'static str {
        match self {
            Self::Type => "content-type",
            Self::Cache => "cache-control",
            Self::Disposition => "content-disposition",
            Self::Encoding => "content-encoding",
            Self::Language => "content-language",
            Self::Expires => "expires",
        }
    }

    fn of(self, object: &mut Object) -> &mut Option<String> {
        match self {
            Self::Type => &mut object.content_type,
            Self::Cache => &mut object.cache_control,
            Self::Disposition => &mut object.content_disposition,
            Self::Encoding => &mut object.content_encoding,
            Self::Language => &mut object.content_language,
            Self::Expires => &mut object.expires,
        }
    }
}

impl ObjectAttribute {
    /// The attribute for the name of an extended attribute.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix(SPACE)?;
        let header = Header::ALL.into_iter().find(|header| header.name() == name).map(Self::Header);
        let below = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(str::to_owned);
        let found = header
            .or_else(|| below(CHECKSUM).map(Self::Checksum))
            .or_else(|| below(TAG).map(Self::Tag))
            .or_else(|| below(METADATA).map(Self::Metadata));
        Some(match name {
            ETAG => Self::ETag,
            VERSION => Self::Version,
            _ => found.unwrap_or(Self::Unknown),
        })
    }

    fn value(&self, ino: u64, inode: &Inode, versions: bool) -> Option<String> {
        let mut object = inode.object.clone().unwrap_or_default();
        match self {
            Self::ETag => Some(inode.etag(ino)),
            Self::Version => (versions && inode.kind() == InodeKind::File).then(|| version_id(order_of(inode))),
            Self::Checksum(algorithm) => {
                let sums = object.checksums.into_iter();
                sums.filter(|sum| sum.algorithm.to_ascii_lowercase() == *algorithm).map(|sum| sum.value).next()
            }
            Self::Header(header) => header.of(&mut object).take(),
            Self::Tag(name) => object.tags.remove(name),
            Self::Metadata(name) => object.metadata.remove(name),
            Self::Unknown => None,
        }
    }

    /// Refuses a value that S3 would refuse.
    fn check(&self, value: &str) -> Result<()> {
        let valid = match self {
            Self::Header(Header::Encoding) if words::names_framing(value) => false,
            Self::Header(_) => !value.is_empty() && words::is_header_value(value),
            Self::Tag(name) => words::is_tag_name(name) && words::is_tag_value(value),
            Self::Metadata(name) => words::is_metadata_name(name) && words::is_header_value(value),
            Self::ETag | Self::Version | Self::Checksum(_) | Self::Unknown => return Err(Posix::NotPermitted.into()),
        };
        if valid { Ok(()) } else { Err(Posix::Invalid.into()) }
    }

    /// Sets or removes the attribute; removing an absent one is an error.
    fn put(&self, object: &mut Object, value: Option<String>, mode: XattrMode) -> Result<()> {
        let named = match self {
            Self::Header(header) => {
                let held = header.of(object);
                check_mode(mode, held.is_some())?;
                *held = value;
                return check_headers(object);
            }
            Self::Tag(name) => (&mut object.tags, name),
            Self::Metadata(name) => (&mut object.metadata, name),
            Self::ETag | Self::Version | Self::Checksum(_) | Self::Unknown => return Err(Posix::NotPermitted.into()),
        };
        let (all, name) = named;
        check_mode(mode, all.contains_key(name))?;
        match value {
            Some(value) => all.insert(name.clone(), value),
            None => all.remove(name),
        };
        let metadata: usize = object.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if object.tags.len() > words::OBJECT_TAGS_MAX || metadata > words::METADATA_BYTES_MAX {
            return Err(Posix::NoSpace.into());
        }
        Ok(())
    }
}

/// Refuses headers whose total exceeds what clients accept in a response.
fn check_headers(object: &mut Object) -> Result<()> {
    let total: usize = Header::ALL.iter().map(|header| header.of(object).as_ref().map_or(0, String::len)).sum();
    if total > words::HEADERS_BYTES_MAX { Err(Posix::NoSpace.into()) } else { Ok(()) }
}

/// Whether S3 shows an inode as an object, or would once it has a name.
fn is_object(ino: u64, inode: &Inode) -> bool {
    match inode.kind() {
        InodeKind::File => true,
        InodeKind::Directory => ino != ROOT_INO && !inode.implicit,
        _ => false,
    }
}

/// The names of an inode's settable attributes. Those that cannot be set are not listed but can be read by name, since
/// programs that copy files with all listed attributes (cp, tar, rsync) would fail to set them.
pub(super) fn names(ino: u64, inode: &Inode) -> Vec<String> {
    let Some(mut object) = inode.object.clone().filter(|_| is_object(ino, inode)) else { return Vec::new() };
    let headers = Header::ALL.iter().filter(|header| header.of(&mut object).is_some());
    let mut names: Vec<String> = headers.map(|header| header.name().to_owned()).collect();
    names.extend(object.tags.keys().map(|name| format!("{TAG}{name}")));
    names.extend(object.metadata.keys().map(|name| format!("{METADATA}{name}")));
    names.into_iter().map(|name| format!("{SPACE}{name}")).filter(|name| name.len() <= NAME_BYTES_MAX).collect()
}

impl Volume {
    pub(super) fn object_attribute(&self, ino: u64, attribute: &ObjectAttribute) -> Result<Option<Bytes>> {
        // A reader of the entity tag has to see another one after the next write.
        if *attribute == ObjectAttribute::ETag {
            self.0.core.observe(self.0.bucket, &[ino])?;
        }
        let versions = self.shows_versions()?;
        let (_, inode) = self.reading(|tree| tree.dirty_inode(ino))?;
        let value = if is_object(ino, &inode) { attribute.value(ino, &inode, versions) } else { None };
        Ok(value.map(Bytes::from))
    }

    /// Whether the shown bucket or snapshot has versions.
    pub(super) fn shows_versions(&self) -> Result<bool> {
        let versioning = match self.0.core.named(&*self.0.core.meta.snapshot(), &self.0.name)? {
            Named::Bucket(bucket) => bucket.versioning(),
            Named::Snapshot(snapshot) => snapshot.versioning(),
        };
        Ok(versioning != VersioningState::Disabled)
    }

    pub(super) fn set_object_attribute(
        &self,
        ino: u64,
        attribute: &ObjectAttribute,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let value = std::str::from_utf8(value).map_err(|_| Posix::Invalid)?;
        attribute.check(value)?;
        self.put_object_attribute(ino, attribute, Some(value), mode)
    }

    pub(super) fn remove_object_attribute(&self, ino: u64, attribute: &ObjectAttribute) -> Result<()> {
        self.put_object_attribute(ino, attribute, None, XattrMode::Replace)
    }

    fn put_object_attribute(
        &self,
        ino: u64,
        attribute: &ObjectAttribute,
        value: Option<&str>,
        mode: XattrMode,
    ) -> Result<()> {
        self.describing(ino, || {
            let (attribute, value) = (attribute.clone(), value.map(str::to_owned));
            self.once(move |tx| {
                check_lock(tx, ino, &attribute)?;
                let mut inode = tx.own(ino)?;
                if !is_object(ino, &inode) {
                    return Err(Posix::NotPermitted.into());
                }
                inode.refuse_fixed(Touching::Changes)?;
                attribute.put(inode.object.get_or_insert_default(), value, mode)?;
                inode.ctime = tx.now.0;
                tx.save(ino, &inode);
                tx.tell(Change::Attributes { ino });
                Ok(())
            })
        })
    }
}

/// Refuses changes of headers and user metadata of a protected version, except by its writer. Tags can be changed.
fn check_lock(tx: &Tx<'_>, ino: u64, attribute: &ObjectAttribute) -> Result<()> {
    match attribute {
        ObjectAttribute::Tag(_) => tx.check_current(ino),
        _ => tx.check_describable(ino),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::record::inode::StoredChecksum;

    fn object() -> Object {
        Object {
            etag: "tag".into(),
            content_type: Some("text/plain".into()),
            checksums: vec![StoredChecksum { algorithm: "CRC32C".into(), value: "AAAAAA==".into() }],
            tags: [("k".to_owned(), "v".to_owned())].into(),
            metadata: [("a".to_owned(), "b".to_owned()), ("x".repeat(250), String::new())].into(),
            version: 9,
            ..Object::default()
        }
    }

    fn file() -> Inode {
        Inode { object: Some(object()), ..Inode::new(InodeKind::File, Timestamp(0)) }
    }

    #[test]
    fn each_name_that_is_listed_has_a_value() {
        let (inode, names) = (file(), names(5, &file()));
        let values: Vec<_> =
            names.iter().map(|name| ObjectAttribute::named(name).unwrap().value(5, &inode, true).unwrap()).collect();
        assert_eq!(
            names.iter().map(|name| &name[SPACE.len()..]).collect::<Vec<_>>(),
            ["content-type", "tag.k", "meta.a"],
            "but what is too long for an attribute's name"
        );
        assert_eq!(values, ["text/plain", "v", "b"]);
        let read = |name: &str| ObjectAttribute::named(&format!("{SPACE}{name}")).unwrap().value(5, &inode, true);
        let unlisted = ["etag", "version-id", "checksum.crc32c"].map(|name| read(name).unwrap());
        assert_eq!(unlisted, ["tag", "0000000000000009", "AAAAAA=="]);
        assert_eq!(ObjectAttribute::named("user.s3.odd"), Some(ObjectAttribute::Unknown));
        assert_eq!(ObjectAttribute::named("user.s3.tag."), Some(ObjectAttribute::Unknown));
        assert_eq!(ObjectAttribute::named("user.s3x"), None);
    }

    #[test]
    fn only_what_s3_lets_set_is_set() {
        let set = |name: &str, value: &str| {
            let attribute = ObjectAttribute::named(&format!("{SPACE}{name}")).unwrap();
            let mut object = object();
            attribute.check(value)?;
            attribute.put(&mut object, Some(value.to_owned()), XattrMode::Any).map(|()| object)
        };
        assert_eq!(set("content-type", "image/png").unwrap().content_type.as_deref(), Some("image/png"));
        assert_eq!(set("meta.a", "c").unwrap().metadata["a"], "c");
        let refused = |name: &str, value: &str, why: Posix| {
            let found = set(name, value).unwrap_err();
            assert!(matches!(found, crate::Error::Posix(posix) if posix == why), "{name}: {found}");
        };
        for name in ["etag", "version-id", "checksum.crc32c", "storage-class"] {
            refused(name, "x", Posix::NotPermitted);
        }
        for (name, value) in
            [("content-type", ""), ("expires", "a\nb"), ("content-encoding", "aws-chunked"), ("meta.A", "x")]
        {
            refused(name, value, Posix::Invalid);
        }
        refused("tag.aws:k", "v", Posix::Invalid);
        refused("meta.b", &"x".repeat(words::METADATA_BYTES_MAX), Posix::NoSpace);
    }

    #[test]
    fn only_ten_tags_fit_and_what_is_not_there_is_not_removed() {
        let mut object = Object::default();
        for tag in 0..words::OBJECT_TAGS_MAX {
            let attribute = ObjectAttribute::Tag(tag.to_string());
            attribute.put(&mut object, Some(String::new()), XattrMode::Create).unwrap();
        }
        let another = ObjectAttribute::Tag("another".into());
        assert!(another.put(&mut object.clone(), Some(String::new()), XattrMode::Any).is_err());
        assert!(another.put(&mut object, None, XattrMode::Replace).is_err());
    }

    #[test]
    fn symlinks_implicit_directories_and_the_root_are_no_objects() {
        let link = Inode::new(InodeKind::Symlink, Timestamp(0));
        let dir = Inode::new(InodeKind::Directory, Timestamp(0));
        let implied = Inode { implicit: true, ..dir.clone() };
        assert!(is_object(2, &dir) && !is_object(ROOT_INO, &dir) && !is_object(2, &implied) && !is_object(2, &link));
        assert_eq!(names(2, &dir), Vec::<String>::new());
    }
}
