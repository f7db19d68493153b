//! aws-cli, command by command as a person would type them.

use std::path::PathBuf;
use std::time::Duration;

use super::files::{bytes, same, write};
use crate::support::program::client;
use crate::support::*;

/// The time limit of one command: the interpreter alone takes a second to start.
const LIMIT: Duration = Duration::from_secs(60);

struct Aws<'a> {
    program: PathBuf,
    server: &'a Server,
}

impl Aws<'_> {
    #[track_caller]
    fn try_run(&self, args: &[&str]) -> Outcome {
        let mut command = client(&self.program, self.server);
        command.args(["--endpoint-url", self.server.s3()]).args(args);
        command.env("AWS_CONFIG_FILE", self.server.home().path().join("aws.ini"));
        run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn s3(&self, args: &[&str]) -> String {
        self.try_run(&[&["s3"], args].concat()).ok()
    }

    /// Calls an S3 API operation; returns its answer as JSON.
    #[track_caller]
    fn api(&self, args: &[&str]) -> serde_json::Value {
        let text = self.try_run(&[&["s3api"], args].concat()).ok();
        serde_json::from_str(&text).unwrap_or(serde_json::Value::Null)
    }

    /// Calls an S3 API operation that has to fail; returns the error output.
    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let outcome = self.try_run(&[&["s3api"], args].concat());
        assert!(!outcome.status.success(), "{outcome}");
        outcome.stderr
    }
}

#[test]
fn a_bucket_is_made_filled_synced_and_removed() {
    let aws = need!(required("aws"));
    every_command(aws, &Server::start());
}

/// aws-cli version 2, as the distribution packages it; the other tests use the last release of version 1.
#[test]
fn a_bucket_is_created_filled_synced_and_removed_by_the_version_of_the_distribution() {
    need!(python().ok_or("boto3 is not installed: run tests/setup.sh"));
    every_command(need!(packaged("aws")), &Server::start());
}

#[test]
fn a_bucket_is_made_filled_synced_and_removed_over_tls() {
    let aws = need!(required("aws"));
    every_command(aws, &Options::default().tls().start());
}

fn every_command(program: PathBuf, server: &Server) {
    let aws = Aws { program, server };
    let home = server.home().path();

    // By default, aws-cli 1 signs URLs with Signature Version 2.
    write(&home.join("aws.ini"), b"[default]\n");

    aws.s3(&["mb", "s3://shop"]);
    let large = bytes(64 << 20);
    write(&home.join("large"), &large);
    aws.s3(&["cp", "--no-progress", "large", "s3://shop/in/large"]);
    aws.s3(&["cp", "--no-progress", "s3://shop/in/large", "back"]);
    assert!(std::fs::read(home.join("back")).expect("downloaded") == large, "the downloaded 64 MiB differ");

    for (name, content) in [("a b.txt", "1"), ("d/é", "22"), ("d/e/f+g", "333"), ("empty", "")] {
        write(&home.join("tree").join(name), content.as_bytes());
    }
    let first = aws.s3(&["sync", "--no-progress", "tree", "s3://shop/tree"]);
    assert_eq!(first.lines().count(), 4, "{first}");
    assert_eq!(aws.s3(&["sync", "--no-progress", "tree", "s3://shop/tree"]), "", "an unchanged tree is not sent again");
    aws.s3(&["sync", "--no-progress", "s3://shop/tree", "tree2"]);
    same(&home.join("tree"), &home.join("tree2"));

    let listed = aws.s3(&["ls", "s3://shop/tree/"]);
    let names: Vec<_> = listed.lines().map(|line| line[31.min(line.len())..].trim()).collect();
    assert_eq!(names, ["d/", "a b.txt", "empty"], "{listed}");
    let sizes = aws.s3(&["ls", "--recursive", "--summarize", "s3://shop/tree/"]);
    assert!(sizes.contains("Total Objects: 4") && sizes.contains("Total Size: 6"), "{sizes}");

    aws.s3(&["cp", "--no-progress", "s3://shop/in/large", "s3://shop/copy"]);
    aws.s3(&["mv", "--no-progress", "s3://shop/copy", "s3://shop/moved"]);
    let url = aws.s3(&["presign", "s3://shop/moved", "--expires-in", "600"]);
    let fetched = fetch(server, url.trim());
    assert!(fetched == large.len().to_string(), "the presigned URL gave {fetched} bytes");

    let refused = aws.try_run(&["s3", "rb", "s3://shop"]);
    assert!(!refused.status.success() && refused.stderr.contains("BucketNotEmpty"), "{refused}");
    let removed = aws.s3(&["rm", "--recursive", "s3://shop"]);
    assert_eq!(removed.lines().count(), 6, "{removed}");
    assert_eq!(aws.s3(&["ls", "s3://shop"]), "");
    aws.s3(&["rb", "s3://shop"]);
    assert_eq!(aws.s3(&["ls"]), "");
}

/// The number of bytes that a plain HTTP client gets from a URL.
fn fetch(server: &Server, url: &str) -> String {
    let script = "import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1], timeout=60).read()))";
    let python = python().expect("aws is installed beside it");
    let outcome = run(client(&python, server).args(["-c", script, url]), LIMIT);
    outcome.unwrap_or_else(|error| panic!("{error}")).ok().trim().to_owned()
}

/// aws-cli sends `Expect: 100-continue` for empty files too, and a final answer without the `100` must end its
/// connection: this client would take the status of that answer for the status of the next one, and wait for a body.
#[test]
fn an_empty_file_does_not_spoil_the_connection_for_the_next() {
    let program = need!(required("aws"));
    let server = Server::start();
    let aws = Aws { program, server: &server };
    let home = server.home().path();
    write(&home.join("aws.ini"), b"[default]\ns3 =\n  max_concurrent_requests = 1\n");
    for number in 0..6 {
        write(&home.join(format!("tree/{number}")), &b"full"[..4 * (number % 2)]);
    }
    aws.s3(&["mb", "s3://shop"]);
    aws.s3(&["sync", "--no-progress", "tree", "s3://shop"]);
    aws.s3(&["sync", "--no-progress", "s3://shop", "back"]);
    same(&home.join("tree"), &home.join("back"));
}

/// The arguments of a call on the object `k`.
fn call<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[name, "--bucket", "shop", "--key", "k"], more].concat()
}

#[test]
fn calls_of_the_api_carry_conditions_checksums_and_tags() {
    let program = need!(required("aws"));
    let server = Server::start();
    let aws = Aws { program, server: &server };
    let home = server.home().path();
    let body = bytes(100_000);
    write(&home.join("aws.ini"), b"");
    write(&home.join("body"), &body);
    aws.api(&["create-bucket", "--bucket", "shop"]);
    let create = call("put-object", &["--body", "body", "--if-none-match", "*"]);
    let put = aws.api(&create);
    assert!(put["ChecksumCRC32"].is_string() || put["ChecksumCRC64NVME"].is_string(), "a checksum by default: {put}");
    assert!(aws.refused(&create).contains("PreconditionFailed"));
    let head = aws.api(&call("head-object", &["--checksum-mode", "ENABLED"]));
    assert_eq!((&head["ContentLength"], &head["ETag"]), (&100_000.into(), &put["ETag"]), "{head}");
    aws.api(&call("get-object", &["--range", "bytes=10-19", "part"]));
    assert_eq!(std::fs::read(home.join("part")).expect("downloaded"), body[10..20]);
    aws.api(&call("put-object-tagging", &["--tagging", "TagSet=[{Key=a,Value=1}]"]));
    let tags = aws.api(&call("get-object-tagging", &[]));
    assert_eq!(tags["TagSet"], serde_json::json!([{"Key": "a", "Value": "1"}]));
    let attributes = aws.api(&call("get-object-attributes", &["--object-attributes", "ObjectSize", "ETag"]));
    assert_eq!(attributes["ObjectSize"], 100_000, "{attributes}");
    assert!(aws.refused(&call("delete-object", &["--if-match", "\"other\""])).contains("PreconditionFailed"));
    let etag = put["ETag"].as_str().expect("an ETag");
    aws.api(&call("delete-object", &["--if-match", etag]));
    aws.api(&["delete-bucket", "--bucket", "shop"]);
}
