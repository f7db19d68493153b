//! All integration tests in one binary, since links are slow: each file is a module.

mod admin;
mod bad_input;
mod cosi;
mod csi;
mod handles;
mod kill;
mod mount;
mod outlive;
mod process;
mod races;
mod s3_clients;
mod signatures;
mod support;
mod tidy;
mod workloads;
