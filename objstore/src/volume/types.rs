//! The plain values that volume operations take and return. Those that cross the seam to a mount are defined in
//! `objstore-files`.

pub use objstore_base::acl::{ACCESS as ACCESS_ACL, Acl, DEFAULT as DEFAULT_ACL, Hidden};
pub use objstore_files::{
    Allocate, Attr, Change, DirEntry, Flags, Kind, Make, Names, Ownership, ROOT_INO, Released, Rename, RenameMode,
    SetAcl, SetAttr, Space, Spot, Unfit, WhichAcl, XattrMode,
};
