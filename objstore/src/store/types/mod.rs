//! The plain values that store operations take and return.

mod access;
mod bucket;
mod listing;
mod object;
mod role;
mod upload;
pub mod words;

pub use crate::content::{Checksum, ObjectPart};
pub use crate::grant::Secret;
pub use crate::record::access_list::{ACL_GRANTS_MAX, AccessGrant, AccessList, Grantee, GranteeKind, Permission};
pub use crate::record::creator::Creator;
pub use crate::record::inode::RetentionMode;
pub use crate::record::settings::{
    CorsRule, DefaultRetention, LifecycleFilter, LifecycleRule, LogKeyFormat, Logging, ObjectLock, Ownership,
    PublicAccess, RedirectAll, RoutingRule, Settings, Website,
};
pub use crate::tree::{HiddenKey, HiddenPage, List, ListVersions};
pub use access::{Account, Grant, Identity, KeyInfo, Mode, NewKey, Publication};
pub use bucket::{
    Bucket, CreateBucket, Deletion, Fill, GroupMember, GroupSnapshotInfo, Modification, Outcome, RootAttributes,
    RootChange, SetBucket, SnapshotInfo, Source, Usage, Versioning,
};
pub use listing::{Listed, Listing, VersionInfo, VersionListing};
pub use object::{
    Condition, CopiedObject, CopyObject, DeleteObject, Deleted, Directive, EntityTags, Headers, Lock, ObjectAccess,
    ObjectInfo, PutObject, Retention,
};
pub use role::{NewRole, NewRoleSession, Role, RoleCredentials, RoleSession, SessionFault, TrustedIdentity};
pub use upload::{
    CompleteUpload, CompletedUpload, CopyPart, CreateUpload, PartHash, PartInfo, PartListing, PutPart, UploadInfo,
    UploadListing, UploadRef,
};
