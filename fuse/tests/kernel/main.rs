//! The file system through the kernel: real mounts of a real store.
//!
//! - Without root or `/dev/fuse` every test prints why it is skipped and passes.
//! - Every test has a time limit, after which its mounts are detached, so a bug cannot hang the machine.

mod acl;
mod attributes;
mod closing;
mod coherence;
mod copy_range;
mod cut_off;
mod directories;
mod files;
mod flags;
mod folder_pair;
mod fresh;
mod idmapped;
mod lifecycle;
mod locks;
mod names;
mod passthrough;
mod paths;
mod privileges;
mod protocol;
mod several;
mod test_store;
mod times;
mod tmpfile;
mod versions;
mod xattrs;
