//! Operations on objects.

pub(crate) mod acl;
pub(crate) mod attributes;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod put;
pub(crate) mod restore;
pub(crate) mod span;
pub(crate) mod tagging;
