//! Faults under the whole server: full and failing disks, damaged and missing files, a leaping clock, too few
//! descriptors, too little memory.
//!
//! - Each ends in a clear error and no wrong data. Once the cause is gone the store continues, or reports what is
//!   damaged.

mod broken;
mod clock;
mod damage;
mod descriptors;
mod full;
mod full_mount;
mod memory;
mod reserved;
mod sample;
mod sessions;
