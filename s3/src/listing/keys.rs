//! ListObjects and ListObjectsV2. [`contents`] writes the XML of the keys.

use objstore::name::BucketName;
use objstore::store::{List, Listing};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use super::{Encoding, contents, given, marker, page, prefixes};
use crate::error::OrRefuse as _;
use crate::service::Service;
use crate::{names, token};

/// Lists keys (S3 API, ListObjects).
pub(crate) async fn objects(
    service: &Service,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let list = List {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: given(input.delimiter.as_ref()),
        after: marker::given(input.marker.as_ref()),
        limit: page(input.max_keys, "max-keys")?,
    };
    let delimited = list.delimiter.is_some();
    let (limit, page) = (list.limit, read(service, &input.bucket, list).await?);
    // Without a delimiter the last key is the next marker, and AWS omits it.
    let next = page.listing.next.as_deref().filter(|next| delimited || marker::is_token(next, encoding));
    let frame = ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.apply(input.prefix.as_deref().unwrap_or_default())),
        marker: Some(encoding.apply(input.marker.as_deref().unwrap_or_default())),
        max_keys: i32::try_from(limit).ok(),
        is_truncated: Some(page.listing.next.is_some()),
        contents: None,
        common_prefixes: prefixes(&page.listing.prefixes, encoding),
        delimiter: encoding.apply_to(given(input.delimiter.as_ref()).as_ref()),
        next_marker: next.map(|next| marker::written(next, encoding)),
        encoding_type: input.encoding_type,
        request_charged: None,
    };
    let document = contents::document(&frame, &page.listing.objects, encoding, Some(&page.owner))?;
    let mut response = S3Response::new(ListObjectsOutput::default());
    encoding.tell_replaced(page.names(), &mut response.headers);
    response.extensions.insert(document);
    Ok(response)
}

/// Lists keys (S3 API, ListObjectsV2).
pub(crate) async fn objects_v2(
    service: &Service,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let resumed = given(input.continuation_token.as_ref()).as_deref().map(token::decode).transpose()?;
    let list = List {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: given(input.delimiter.as_ref()),
        after: resumed.or_else(|| given(input.start_after.as_ref())),
        limit: page(input.max_keys, "max-keys")?,
    };
    let (limit, page) = (list.limit, read(service, &input.bucket, list).await?);
    let owner = page.owner.as_str();
    let owner = input.fetch_owner.unwrap_or(false).then_some(owner);
    let count = page.listing.objects.len() + page.listing.prefixes.len();
    let frame = ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encoding.apply(input.prefix.as_deref().unwrap_or_default())),
        max_keys: i32::try_from(limit).ok(),
        key_count: i32::try_from(count).ok(),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.listing.next.is_some()),
        next_continuation_token: page.listing.next.as_deref().map(token::encode),
        contents: None,
        common_prefixes: prefixes(&page.listing.prefixes, encoding),
        delimiter: encoding.apply_to(given(input.delimiter.as_ref()).as_ref()),
        encoding_type: input.encoding_type,
        start_after: encoding.apply_to(input.start_after.as_ref()),
        request_charged: None,
    };
    let document = contents::document(&frame, &page.listing.objects, encoding, owner)?;
    let mut response = S3Response::new(ListObjectsV2Output::default());
    encoding.tell_replaced(page.names(), &mut response.headers);
    response.extensions.insert(document);
    Ok(response)
}

/// A page of keys, and the bucket's owner.
struct Page {
    listing: Listing,
    owner: String,
}

impl Page {
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = self.listing.objects.iter().map(|object| object.key.as_str());
        keys.chain(self.listing.prefixes.iter().map(String::as_str))
    }
}

async fn read(service: &Service, bucket: &str, list: List) -> S3Result<Page> {
    let bucket: BucketName = names::bucket(bucket)?;
    service
        .blocking(move |store| {
            let owner = store.bucket(&bucket).or_refuse()?.owner;
            // No keys were requested, so there is no next page either.
            let listing =
                if list.limit == 0 { Listing::default() } else { store.list_objects(&bucket, &list).or_refuse()? };
            Ok(Page { listing, owner })
        })
        .await
}
