//! aws-cli, command by command as a person would type them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::*;

/// One command: the interpreter alone takes a second to start.
const LIMIT: Duration = Duration::from_secs(60);

struct Aws<'a> {
    program: PathBuf,
    server: &'a Server,
}

impl Aws<'_> {
    #[track_caller]
    fn try_s3(&self, args: &[&str]) -> Outcome {
        let key = self.server.credentials();
        let mut command = Command::new(&self.program);
        command.args(["--endpoint-url", self.server.s3(), "s3"]).args(args).current_dir(self.server.home().path());
        command.env("AWS_ACCESS_KEY_ID", key.access_key_id).env("AWS_SECRET_ACCESS_KEY", key.secret_access_key);
        command.env("AWS_DEFAULT_REGION", "us-east-1").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_CONFIG_FILE", self.server.home().path().join("aws.ini")).env("AWS_MAX_ATTEMPTS", "1");
        run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn s3(&self, args: &[&str]) -> String {
        let outcome = self.try_s3(args);
        assert!(outcome.status.success(), "{outcome}");
        outcome.stdout
    }
}

/// Bytes that no block of them repeats.
fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).take(len.div_ceil(8)).flatten().take(len).collect()
}

fn write(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
    std::fs::write(path, content).expect("the file is written");
}

#[test]
fn a_bucket_is_made_filled_synced_and_removed() {
    let aws = need!(required("aws"));
    let server = Server::start();
    let aws = Aws { program: aws, server: &server };
    let home = server.home().path();

    // Left to itself, this version of aws-cli signs URLs with Signature Version 2.
    write(&home.join("aws.ini"), b"[default]\ns3 =\n  signature_version = s3v4\n");

    aws.s3(&["mb", "s3://shop"]);
    let large = bytes(64 << 20);
    write(&home.join("large"), &large);
    aws.s3(&["cp", "--no-progress", "large", "s3://shop/in/large"]);
    aws.s3(&["cp", "--no-progress", "s3://shop/in/large", "back"]);
    assert!(std::fs::read(home.join("back")).expect("downloaded") == large, "64 MiB came back changed");

    for (name, content) in [("a b.txt", "1"), ("d/é", "22"), ("d/e/f+g", "333"), ("empty", "")] {
        write(&home.join("tree").join(name), content.as_bytes());
    }
    let first = aws.s3(&["sync", "--no-progress", "tree", "s3://shop/tree"]);
    assert_eq!(first.lines().count(), 4, "{first}");
    assert_eq!(aws.s3(&["sync", "--no-progress", "tree", "s3://shop/tree"]), "", "nothing changed since");
    aws.s3(&["sync", "--no-progress", "s3://shop/tree", "tree2"]);
    let diff = run(Command::new("diff").args(["-r", "tree", "tree2"]).current_dir(home), LIMIT).expect("diff runs");
    assert!(diff.status.success(), "{diff}");

    let listed = aws.s3(&["ls", "s3://shop/tree/"]);
    let names: Vec<_> = listed.lines().map(|line| line[31.min(line.len())..].trim()).collect();
    assert_eq!(names, ["d/", "a b.txt", "empty"], "{listed}");
    let sizes = aws.s3(&["ls", "--recursive", "--summarize", "s3://shop/tree/"]);
    assert!(sizes.contains("Total Objects: 4") && sizes.contains("Total Size: 6"), "{sizes}");

    aws.s3(&["cp", "--no-progress", "s3://shop/in/large", "s3://shop/copy"]);
    aws.s3(&["mv", "--no-progress", "s3://shop/copy", "s3://shop/moved"]);
    let url = aws.s3(&["presign", "s3://shop/moved", "--expires-in", "60"]);
    let fetched = fetch(url.trim());
    assert!(fetched == large.len().to_string(), "the presigned URL gave {fetched} bytes");

    let refused = aws.try_s3(&["rb", "s3://shop"]);
    assert!(!refused.status.success() && refused.stderr.contains("BucketNotEmpty"), "{refused}");
    let removed = aws.s3(&["rm", "--recursive", "s3://shop"]);
    assert_eq!(removed.lines().count(), 6, "{removed}");
    assert_eq!(aws.s3(&["ls", "s3://shop"]), "");
    aws.s3(&["rb", "s3://shop"]);
    assert_eq!(aws.s3(&["ls"]), "");
}

/// How many bytes a URL gives to a client that knows nothing of S3.
fn fetch(url: &str) -> String {
    let script = "import sys, urllib.request; print(len(urllib.request.urlopen(sys.argv[1], timeout=60).read()))";
    let python = python().expect("aws is installed beside it");
    let outcome = run(Command::new(python).args(["-c", script, url]), LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success(), "{outcome}");
    outcome.stdout.trim().to_owned()
}
