//! The meaning of requests, one module for each group of operations.

pub(crate) mod attributes;
pub(crate) mod copies;
pub(crate) mod directories;
pub(crate) mod files;
pub(crate) mod flags;
pub(crate) mod locks;
pub(crate) mod names;
pub(crate) mod xattrs;
