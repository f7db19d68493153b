//! S3 as real clients see it: boto3, aws-cli, and the SDK for Rust.

mod aws_cli;
mod boto3;
mod sdk;
