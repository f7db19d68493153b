//! GetObjectAttributes: metadata of an object and of the parts it was uploaded in.

use http::HeaderMap;
use objstore::store::{ObjectInfo, ObjectPart};
use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, bad_argument, says};
use crate::response::{self, length, time};
use crate::service::Call;
use crate::{checksum, listing, names, storage_class};

/// The requested attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    etag: bool,
    checksum: bool,
    parts: bool,
    storage_class: bool,
    size: bool,
}

impl Wanted {
    /// Clients list several in one header, or repeat the header; `s3s` passes on only the first line.
    fn parse(headers: &HeaderMap) -> S3Result<Self> {
        let mut wanted = Self::default();
        let given = headers.get_all("x-amz-object-attributes").iter();
        for name in given.flat_map(|names| names.to_str().unwrap_or_default().split(',')) {
            let field = match name.trim() {
                ObjectAttributes::ETAG => &mut wanted.etag,
                ObjectAttributes::CHECKSUM => &mut wanted.checksum,
                ObjectAttributes::OBJECT_PARTS => &mut wanted.parts,
                ObjectAttributes::STORAGE_CLASS => &mut wanted.storage_class,
                ObjectAttributes::OBJECT_SIZE => &mut wanted.size,
                other => {
                    let words = "Invalid attribute name specified.";
                    return Err(bad_argument(words, "x-amz-object-attributes", other));
                }
            };
            *field = true;
        }
        if wanted == Self::default() {
            let words = "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing \
                         or empty";
            return Err(says(S3ErrorCode::InvalidRequest, words));
        }
        Ok(wanted)
    }
}

/// The page of parts that a response shows.
struct Page {
    marker: i32,
    after: u32,
    limit: usize,
}

impl Page {
    fn parse(marker: Option<i32>, limit: Option<i32>) -> S3Result<Self> {
        let marker = marker.unwrap_or(0);
        let after = u32::try_from(marker);
        let after = after.map_err(|_| listing::out_of_range("part-number-marker", marker))?;
        Ok(Self { marker, after, limit: listing::page(limit, "max-parts")? })
    }
}

/// Answers the attributes of an object (S3 API, GetObjectAttributes).
pub(crate) async fn attributes(
    call: &Call,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let wanted = Wanted::parse(&request.headers)?;
    let page = Page::parse(input.part_number_marker, input.max_parts)?;
    let (version, authority) = (input.version_id, call.request.authority()?);
    let (object, parts) = call
        .blocking(move |store| {
            let (object, reader) = store.open_object(&bucket, &key, version.as_deref()).or_refuse()?;
            authority.confirm(store, &object)?;
            let parts = if wanted.parts { reader.parts().or_refuse()? } else { Vec::new() };
            Ok((object, parts))
        })
        .await?;
    let object_parts = object.parts.filter(|_| wanted.parts).map(|count| shown_parts(count, &parts, &page));
    Ok(S3Response::new(GetObjectAttributesOutput {
        checksum: if wanted.checksum { shown_checksum(&object) } else { None },
        delete_marker: None,
        e_tag: wanted.etag.then(|| response::etag(&object.etag)),
        last_modified: Some(time(object.modified)),
        object_parts,
        object_size: wanted.size.then(|| length(object.size)),
        request_charged: None,
        storage_class: wanted
            .storage_class
            .then(|| storage_class::name(object.headers.storage_class.as_ref()).to_owned().into()),
        version_id: object.version,
    }))
}

fn shown_checksum(object: &ObjectInfo) -> Option<Checksum> {
    let mut shown = Checksum::default();
    checksum::fill!(shown, &object.checksums, typed);
    Some(shown).filter(|_| !object.checksums.is_empty())
}

fn shown_parts(count: u32, parts: &[ObjectPart], page: &Page) -> GetObjectAttributesParts {
    let after = parts.iter().filter(|part| part.number > page.after);
    let shown: Vec<ObjectPart> = after.clone().take(page.limit).cloned().collect();
    let more = after.count() > shown.len();
    let last = shown.last().and_then(|part| i32::try_from(part.number).ok());
    GetObjectAttributesParts {
        is_truncated: Some(more),
        max_parts: i32::try_from(page.limit).ok(),
        next_part_number_marker: Some(last.unwrap_or(0)),
        part_number_marker: Some(page.marker),
        parts: Some(shown.iter().map(shown_part).collect()),
        total_parts_count: i32::try_from(count).ok(),
    }
}

fn shown_part(part: &ObjectPart) -> s3s::dto::ObjectPart {
    let mut shown = s3s::dto::ObjectPart {
        part_number: i32::try_from(part.number).ok(),
        size: Some(length(part.size)),
        ..s3s::dto::ObjectPart::default()
    };
    checksum::fill!(shown, &part.checksums);
    shown
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn attributes_are_named_one_by_one() {
        let parse = |names: &[&'static str]| {
            let header = HeaderName::from_static("x-amz-object-attributes");
            let named = names.iter().map(|name| (header.clone(), HeaderValue::from_static(name)));
            Wanted::parse(&named.collect())
        };
        let wanted = parse(&["ETag", "ObjectSize"]).unwrap();
        assert_eq!(wanted, Wanted { etag: true, size: true, ..Wanted::default() });
        assert_eq!(parse(&["ETag, ObjectSize"]).unwrap(), wanted);
        assert_eq!(parse(&[]).unwrap_err().code().as_str(), "InvalidRequest");
        assert_eq!(parse(&["ETag", "Etag"]).unwrap_err().code().as_str(), "InvalidArgument");
    }

    #[test]
    fn parts_come_in_pages() {
        let part = |number| ObjectPart { number, offset: 0, size: 5, checksums: Vec::new() };
        let parts = [1, 3, 4, 9].map(part);
        let page = |marker, limit| {
            let shown = shown_parts(4, &parts, &Page::parse(Some(marker), Some(limit)).unwrap());
            let numbers: Vec<i32> = shown.parts.unwrap().iter().filter_map(|part| part.part_number).collect();
            (numbers, shown.is_truncated.unwrap(), shown.next_part_number_marker.unwrap())
        };
        assert_eq!(page(0, 2), (vec![1, 3], true, 3));
        assert_eq!(page(3, 2), (vec![4, 9], false, 9));
        assert_eq!(page(9, 2), (vec![], false, 0));
        assert_eq!(page(0, 0), (vec![], true, 0));
        assert!(Page::parse(Some(-1), None).is_err() && Page::parse(None, Some(-1)).is_err());
    }
}
