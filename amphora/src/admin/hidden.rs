//! Listing of hidden keys, which mounts cannot show, for the admin service.

use objstore::name::Hidden;
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::{Service, bucket};

/// The most keys on one page.
const PAGE_MAX: u32 = 1000;

pub(super) async fn list(
    service: &Service,
    request: api::ListHiddenKeysRequest,
) -> Result<api::ListHiddenKeysResponse, Status> {
    let name = bucket::name(&request.name)?;
    let size = if request.page_size == 0 { PAGE_MAX } else { request.page_size.min(PAGE_MAX) };
    let page = service.blocking(move |store| {
        let after = Some(request.after.as_str()).filter(|after| !after.is_empty());
        store.hidden_keys(&name, &request.prefix, after, size as usize)
    });
    let page = page.await?;
    let shown = |hidden: objstore::store::HiddenKey| api::HiddenKey {
        key: hidden.key,
        reason: match hidden.why {
            Hidden::Empty => api::HiddenReason::EmptyName,
            Hidden::Dots => api::HiddenReason::DotName,
            Hidden::Long => api::HiddenReason::LongName,
            Hidden::Folder => api::HiddenReason::Folder,
        } as i32,
    };
    Ok(api::ListHiddenKeysResponse { keys: page.keys.into_iter().map(shown).collect(), next_after: page.next })
}
