//! The entry point of a fuzz target (`fuzz/`): kernel requests decoded from arbitrary bytes.

use super::request::Request;
use super::{Feature, Features};

/// Decodes a request as the device delivers it, with and without the fields that an INIT can add to its layout.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_breaks_no_promise() {
        corpora::run("request", request);
    }
}
