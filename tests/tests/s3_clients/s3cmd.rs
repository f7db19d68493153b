//! s3cmd, command by command as old scripts use it.

use std::path::PathBuf;
use std::process::Command;

use super::files::{bytes, same, tree, write};
use crate::support::program::{client, fail, succeed};
use crate::support::*;

const LARGE: usize = 23 << 20;

struct S3cmd<'a> {
    program: PathBuf,
    server: &'a Server,
}

impl S3cmd<'_> {
    /// A configuration file: s3cmd takes the endpoint from nowhere else.
    fn new(program: PathBuf, server: &Server) -> S3cmd<'_> {
        let Credentials { access_key_id, secret_access_key } = server.credentials();
        let address = server.s3().split_once("://").expect("a URL").1;
        let text = format!(
            "[default]\naccess_key = {access_key_id}\nsecret_key = {secret_access_key}\nhost_base = {address}\n\
             host_bucket = {address}\nuse_https = {}\nmultipart_chunk_size_mb = 5\nmax_retries = 1\n",
            if server.authority().is_some() { "True" } else { "False" },
        );
        std::fs::write(server.home().path().join("s3cfg"), text).expect("a configuration");
        S3cmd { program, server }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = client(&self.program, self.server);
        command.args(["--config", "s3cfg", "--no-progress"]);
        if let Some(authority) = self.server.authority() {
            command.arg("--ca-certs").arg(authority);
        }
        command.args(args);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> String {
        succeed(&mut self.command(args))
    }
}

fn every_command(program: PathBuf, server: &Server) {
    let s3cmd = S3cmd::new(program, server);
    let home = server.home().path();
    tree(&home.join("here"), LARGE);

    s3cmd.run(&["mb", "s3://shop"]);
    assert!(s3cmd.run(&["ls"]).contains("s3://shop"));
    write(&home.join("small"), b"small");
    s3cmd.run(&["put", "--mime-type=text/x", "--add-header=x-amz-meta-color:red", "small", "s3://shop/in/small"]);
    s3cmd.run(&["put", "here/large", "s3://shop/in/large"]);
    s3cmd.run(&["get", "s3://shop/in/large", "back"]);
    assert!(std::fs::read(home.join("back")).expect("downloaded") == bytes(LARGE), "the large file changed");
    let listed = s3cmd.run(&["ls", "--recursive", "s3://shop/"]);
    assert!(listed.contains(&LARGE.to_string()) && listed.contains("s3://shop/in/small"), "{listed}");
    assert!(s3cmd.run(&["ls", "s3://shop/"]).contains("DIR"), "folders are shown");
    assert!(s3cmd.run(&["du", "s3://shop/"]).contains("2 objects"));

    let info = s3cmd.run(&["info", "s3://shop/in/small"]);
    assert!(info.contains("text/x") && info.contains("x-amz-meta-color: red"), "{info}");
    assert!(s3cmd.run(&["info", "s3://shop"]).contains("us-east-1"));

    s3cmd.run(&["sync", "here/", "s3://shop/tree/"]);
    let again = s3cmd.run(&["sync", "here/", "s3://shop/tree/"]);
    assert!(!again.contains("upload:"), "nothing changed: {again}");
    s3cmd.run(&["sync", "s3://shop/tree/", "there/"]);
    same(&home.join("here"), &home.join("there"));
    std::fs::remove_file(home.join("here/d/medium")).expect("removed");
    s3cmd.run(&["sync", "--delete-removed", "here/", "s3://shop/tree/"]);
    assert!(!s3cmd.run(&["ls", "--recursive", "s3://shop/tree/"]).contains("medium"));

    s3cmd.run(&["cp", "s3://shop/in/large", "s3://shop/copy"]);
    s3cmd.run(&["mv", "s3://shop/copy", "s3://shop/moved"]);
    s3cmd.run(&["get", "s3://shop/moved", "moved"]);
    same(&home.join("back"), &home.join("moved"));
    assert!(!s3cmd.run(&["ls", "s3://shop/copy"]).contains("copy"), "moved, not copied");

    // A change that would make the bucket public is refused with a reason, and not as a server error (5xx).
    let refused = fail(&mut s3cmd.command(&["setacl", "--acl-public", "s3://shop/moved"]));
    assert!(["403", "400", "AccessDenied", "AccessControlListNotSupported"].iter().any(|word| refused.contains(word)));
    assert!(!refused.contains("Traceback"), "{refused}");

    fail(&mut s3cmd.command(&["rb", "s3://shop"]));
    s3cmd.run(&["del", "s3://shop/moved"]);
    s3cmd.run(&["del", "--recursive", "--force", "s3://shop"]);
    assert_eq!(s3cmd.run(&["ls", "--recursive", "s3://shop"]), "");
    s3cmd.run(&["rb", "s3://shop"]);
    assert_eq!(s3cmd.run(&["ls"]), "");
}

#[test]
fn every_command_works() {
    every_command(need!(required("s3cmd")), &Server::start());
}

#[test]
fn every_command_of_the_distributions_version_works() {
    every_command(need!(packaged("s3cmd")), &Server::start());
}

#[test]
fn every_command_works_over_tls() {
    every_command(need!(required("s3cmd")), &Options::default().tls().start());
}

#[test]
fn no_upload_remains_and_absent_keys_can_be_deleted() {
    let server = Server::start();
    let s3cmd = S3cmd::new(need!(required("s3cmd")), &server);
    s3cmd.run(&["mb", "s3://shop"]);
    write(&server.home().path().join("file"), b"content");
    s3cmd.run(&["put", "file", "s3://shop/a b"]);
    let listed = s3cmd.run(&["multipart", "s3://shop"]);
    assert!(!listed.contains("s3://shop/a"), "no upload is left: {listed}");
    let deleted = s3cmd.run(&["del", "s3://shop/a b", "s3://shop/absent"]);
    assert!(deleted.contains("delete: 's3://shop/a b'"), "{deleted}");
}
