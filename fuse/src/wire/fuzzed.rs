//! Requests of the kernel as a function that takes any bytes: the body of a fuzz target (`fuzz/`).

use super::request::Request;
use super::{Feature, Features};

/// A request as it comes from the device, with and without what an INIT can add to its layout.
pub fn request(bytes: &[u8]) {
    for features in [Features::default(), Features::new(&[Feature::SetXattrExt])] {
        match Request::decode(bytes, features) {
            Ok(request) => {
                let _ = (format!("{:?}", request.operation), request.context, request.operation.is_answered());
            }
            Err(unreadable) => drop(unreadable.to_string()),
        }
    }
}
