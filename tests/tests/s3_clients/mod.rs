//! Real S3 clients: AWS's own, third-party ones, and programs that keep their data in a bucket.

mod aws_cli;
mod boto3;
mod files;
mod go;
mod hadoop;
mod js;
mod lake;
mod object_store;
mod opendal;
mod rclone;
mod registry;
mod restic;
mod s3cmd;
mod s3fs;
mod sdk;
mod web_identity;
