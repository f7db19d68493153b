//! ListObjectVersions.
//!
//! - Versions and delete markers are in one order, by key and then newest first, as on S3: clients that read the XML in
//!   order depend on it. `s3s` would write all markers and then all versions, so this module writes the XML.

use std::io::Write;

use bytes::Bytes;
use objstore::name::BucketName;
use objstore::store::{List, ListVersions, ObjectInfo, VersionInfo, VersionListing};
use s3s::dto::*;
use s3s::xml::{SerResult, SerializeContent, Serializer};
use s3s::{S3Request, S3Response, S3Result};

use super::{Encoding, algorithms, given, marker, page, prefixes};
use crate::error::{OrRefuse as _, bad_argument, internal};
use crate::response::{etag, length, person, time};
use crate::service::Service;
use crate::xml::{self, Document, NAMESPACE};
use crate::{checksum, names, storage_class};

/// The version id of an object in a bucket without versioning.
const NULL_VERSION: &str = "null";

/// Lists versions, newest first within a key (S3 API, ListObjectVersions).
pub(crate) async fn versions(
    service: &Service,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = request.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let list = List {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: given(input.delimiter.as_ref()),
        after: marker::given(input.key_marker.as_ref()),
        limit: page(input.max_keys, "max-keys")?,
    };
    let after_version = given(input.version_id_marker.as_ref());
    if after_version.is_some() && list.after.is_none() {
        return Err(bad_argument(
            "A version-id marker cannot be specified without a key marker.",
            "version-id-marker",
            after_version.unwrap_or_default(),
        ));
    }
    let limit = list.limit;
    let (listing, owner) = read(service, names::bucket(&input.bucket)?, ListVersions { list, after_version }).await?;
    let (next_key, next_version) = listing.next.unzip();
    // Everything except the versions.
    let frame = ListObjectVersionsOutput {
        common_prefixes: prefixes(&listing.prefixes, encoding),
        delete_markers: None,
        delimiter: encoding.apply_to(input.delimiter.as_ref()),
        encoding_type: input.encoding_type,
        is_truncated: Some(next_key.is_some()),
        key_marker: Some(encoding.apply(input.key_marker.as_deref().unwrap_or_default())),
        max_keys: i32::try_from(limit).ok(),
        name: Some(input.bucket),
        next_key_marker: next_key.map(|key| marker::written(&key, encoding)),
        next_version_id_marker: next_version.flatten(),
        prefix: Some(encoding.apply(input.prefix.as_deref().unwrap_or_default())),
        request_charged: None,
        version_id_marker: Some(xml::shown(input.version_id_marker.unwrap_or_default())),
        versions: None,
    };
    let document = document(&frame, &listing.versions, encoding, &owner);
    let document = document.map_err(|error| internal(&error))?;
    let mut response = S3Response::new(ListObjectVersionsOutput::default());
    let names = listing.versions.iter().map(|version| version.object.key.as_str());
    let names = names.chain(listing.prefixes.iter().map(String::as_str));
    encoding.tell_replaced(names, &mut response.headers);
    response.extensions.insert(Document(Bytes::from(document)));
    Ok(response)
}

/// The XML of a response.
fn document(
    frame: &ListObjectVersionsOutput,
    versions: &[VersionInfo],
    encoding: Encoding,
    owner: &str,
) -> SerResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256 * (versions.len() + 2));
    let mut writer = Serializer::new(&mut bytes);
    writer.decl()?;
    writer.element_with_ns("ListVersionsResult", NAMESPACE, |writer| {
        frame.serialize_content(writer)?;
        versions.iter().try_for_each(|version| write_version(writer, version, encoding, owner))
    })?;
    Ok(bytes)
}

fn write_version<W: Write>(
    writer: &mut Serializer<W>,
    version: &VersionInfo,
    encoding: Encoding,
    owner: &str,
) -> SerResult {
    if version.marker {
        writer.content("DeleteMarker", &delete_marker(version, encoding, owner))
    } else {
        writer.content("Version", &object_version(version, encoding, owner))
    }
}

async fn read(service: &Service, bucket: BucketName, request: ListVersions) -> S3Result<(VersionListing, String)> {
    service
        .blocking(move |store| {
            let owner = store.bucket(&bucket).or_refuse()?.owner;
            let asked = request.list.limit > 0;
            let listing =
                if asked { store.list_versions(&bucket, &request).or_refuse()? } else { VersionListing::default() };
            Ok((listing, owner))
        })
        .await
}

fn version_id(object: &ObjectInfo) -> Option<String> {
    Some(object.version.clone().unwrap_or_else(|| NULL_VERSION.into()))
}

fn object_version(version: &VersionInfo, encoding: Encoding, owner: &str) -> ObjectVersion {
    let object = &version.object;
    ObjectVersion {
        checksum_algorithm: algorithms(&object.checksums),
        checksum_type: object.checksums.first().map(checksum::kind),
        e_tag: Some(etag(&object.etag)),
        is_latest: Some(version.latest),
        key: Some(encoding.apply(&object.key)),
        last_modified: Some(time(object.modified)),
        owner: Some(person(owner)),
        restore_status: None,
        size: Some(length(object.size)),
        storage_class: Some(storage_class::name(object.headers.storage_class.as_ref()).to_owned().into()),
        version_id: version_id(object),
    }
}

fn delete_marker(version: &VersionInfo, encoding: Encoding, owner: &str) -> DeleteMarkerEntry {
    DeleteMarkerEntry {
        is_latest: Some(version.latest),
        key: Some(encoding.apply(&version.object.key)),
        last_modified: Some(time(version.object.modified)),
        owner: Some(person(owner)),
        version_id: version_id(&version.object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::tests::object;

    #[test]
    fn versions_and_delete_markers_keep_their_order() {
        let version = |key: &str, marker| VersionInfo { object: object(key, "tag", 0), marker, latest: false };
        let versions = [version("a", true), version("a&b", false), version("b", true)];
        let frame = ListObjectVersionsOutput { name: Some("bucket".into()), ..ListObjectVersionsOutput::default() };
        let encoding = Encoding::new(None).unwrap();
        let xml = String::from_utf8(document(&frame, &versions, encoding, "root").unwrap()).unwrap();
        let places = ["<Name>bucket<", "<DeleteMarker>", "<Key>a<", "<Version>", "<Key>a&amp;b<", "<Key>b<"];
        let found: Vec<_> = places.iter().map(|place| xml.find(place).unwrap()).collect();
        assert!(found.is_sorted(), "{found:?} in {xml}");
        assert!(xml.ends_with("</DeleteMarker></ListVersionsResult>"), "{xml}");
    }
}
