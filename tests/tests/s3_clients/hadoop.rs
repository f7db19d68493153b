//! Hadoop's S3A: its shell, distcp, and a job whose output S3A's "magic" committer commits.

use std::path::PathBuf;
use std::process::Command;

use super::files::{bytes, write};
use crate::support::access::root_client;
use crate::support::program::{client, succeed};
use crate::support::*;

const BUCKET: &str = "lake";
const SHELL: &str = "org.apache.hadoop.fs.FsShell";
const DISTCP: &str = "org.apache.hadoop.tools.DistCp";
const CREDENTIALS: &str = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider";
const WORD_COUNT: &str = "org.apache.hadoop.examples.WordCount";

struct Hadoop<'a> {
    java: PathBuf,
    /// The class path: the folder of the settings, and the jars.
    classes: String,
    server: &'a Server,
}

impl<'a> Hadoop<'a> {
    /// Writes the settings that all programs read.
    fn new((java, jars): (PathBuf, PathBuf), server: &'a Server) -> Self {
        let home = server.home().path();
        let folder = home.display().to_string();
        let settings = [
            ("fs.s3a.endpoint", server.s3()),
            ("fs.s3a.endpoint.region", "us-east-1"),
            ("fs.s3a.path.style.access", "true"),
            ("fs.s3a.aws.credentials.provider", CREDENTIALS),
            // The smallest part size, so that a file of some megabytes is uploaded in parts.
            ("fs.s3a.multipart.size", "5242880"),
            ("fs.s3a.multipart.threshold", "5242880"),
            ("hadoop.tmp.dir", &folder),
        ];
        let property = |(name, value)| format!("<property><name>{name}</name><value>{value}</value></property>");
        let properties: String = settings.map(property).concat();
        write(&home.join("conf/core-site.xml"), format!("<configuration>{properties}</configuration>").as_bytes());
        let classes = format!("{}:{}", home.join("conf").display(), jars.join("*").display());
        Self { java, classes, server }
    }

    /// Runs a program of Hadoop's with further settings and arguments.
    #[track_caller]
    fn run(&self, class: &str, settings: &[(&str, &str)], args: &[&str]) -> String {
        let mut command: Command = client(&self.java, self.server);
        command.args(["-cp", &self.classes, "-Xmx256m", class]);
        for (name, value) in settings {
            command.arg("-D").arg(format!("{name}={value}"));
        }
        succeed(command.args(args))
    }

    #[track_caller]
    fn shell(&self, args: &[&str]) -> String {
        self.run(SHELL, &[], args)
    }

    /// The names below a path.
    #[track_caller]
    fn listed(&self, path: &str) -> Vec<String> {
        let listed = self.shell(&["-ls", "-R", "-C", path]);
        listed.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn hadoop_stores_files_copies_trees_and_commits_with_the_magic_committer() {
    let programs = need!(hadoop());
    let server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let home = server.home().path().to_owned();
    let hadoop = Hadoop::new(programs, &server);

    // Three full parts, and a shorter last one.
    write(&home.join("large"), &bytes(16 << 20));
    write(&home.join("words"), b"one two one\n");
    hadoop.shell(&["-mkdir", "-p", "s3a://lake/tree/words"]);
    hadoop.shell(&["-put", "large", "s3a://lake/tree/large"]);
    hadoop.shell(&["-put", "words", "s3a://lake/tree/words/words"]);
    hadoop.shell(&["-get", "s3a://lake/tree/large", "back"]);
    assert!(std::fs::read(home.join("back")).expect("read") == bytes(16 << 20));

    hadoop.run(DISTCP, &[], &["s3a://lake/tree", "s3a://lake/copied"]);
    let copied = ["large", "words", "words/words"].map(|name| format!("s3a://lake/copied/{name}"));
    assert_eq!(hadoop.listed("s3a://lake/copied"), copied);

    let magic = [
        ("fs.s3a.committer.name", "magic"),
        ("mapreduce.outputcommitter.factory.scheme.s3a", "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"),
    ];
    hadoop.run(WORD_COUNT, &magic, &["s3a://lake/copied/words", "s3a://lake/counted"]);
    assert_eq!(hadoop.shell(&["-cat", "s3a://lake/counted/part-r-00000"]), "one\t2\ntwo\t1\n");
    let report: serde_json::Value =
        serde_json::from_str(&hadoop.shell(&["-cat", "s3a://lake/counted/_SUCCESS"])).expect("JSON");
    assert_eq!(report["committer"], "magic", "{report}");

    hadoop.shell(&["-mv", "s3a://lake/copied", "s3a://lake/moved"]);
    hadoop.shell(&["-rm", "-r", "-skipTrash", "s3a://lake/tree"]);
    let left = hadoop.listed("s3a://lake/");
    assert!(left.contains(&"s3a://lake/moved/large".to_owned()), "{left:?}");
    assert!(!left.iter().any(|path| path.contains("/copied") || path.contains("/tree")), "{left:?}");
    // The job leaves no upload.
    let uploads = root_client(&server).list_multipart_uploads().bucket(BUCKET).send().await.expect("listed");
    assert!(uploads.uploads().is_empty(), "{uploads:?}");
}
