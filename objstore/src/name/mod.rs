//! Names, parsed once at the border: inside, nothing is checked again.

mod bucket;
mod key;

pub use bucket::BucketName;
pub use key::{KEY_BYTES_MAX, Key, NAME_BYTES_MAX, mountable};

use crate::error::{Error, Result};

/// Parses a name of an account or node: 1 to 128 visible ASCII characters, none of them `/`.
pub(crate) fn plain(what: &'static str, name: &str) -> Result<String> {
    let good = (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if good {
        return Ok(name.to_owned());
    }
    Err(Error::invalid(what, name, "use 1 to 128 visible ASCII characters without \"/\""))
}
