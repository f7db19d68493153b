//! Calls: the operations, one module for each group, the service that executes them, and the handle with a method for
//! each.

mod attributes;
mod content;
mod files;
mod link;
mod locks;
mod names;
mod op;
mod opens;
mod operations;
mod reply;
mod service;

pub use attributes::AttributeOp;
pub use content::ContentOp;
pub use files::{FileSession, Files};
pub use link::LinkStats;
pub use locks::LockOp;
pub use names::NameOp;
pub use op::{Class, Op};
pub use opens::OpenOp;
pub use reply::{Answer, Reply};
pub use service::{About, FileService, SessionStanding, Trips};
