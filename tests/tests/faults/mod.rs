//! Faults under the whole server: a full disk, a broken one, damaged and missing files, a clock that leaps, too few
//! descriptors, too little memory.
//!
//! - Each ends in a clear error and no wrong data. Once the cause is gone the store goes on, or says what is damaged.

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
