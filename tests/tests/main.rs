//! All integration tests in one binary, since links are slow: each file is a module.

mod process;
mod support;
mod tidy;
