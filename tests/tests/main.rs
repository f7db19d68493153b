//! All integration tests in one binary, since links are slow: each file is a module.

mod admin;
mod bad_input;
mod care;
mod cosi;
mod csi;
mod doors;
mod faults;
mod handles;
mod kill;
mod kubernetes;
mod limits;
mod monitoring;
mod mount;
mod mounting;
mod outlive;
mod power;
mod process;
mod races;
mod requests;
mod s3_clients;
mod signatures;
mod support;
mod tidy;
mod units;
mod upgrade;
mod workloads;
