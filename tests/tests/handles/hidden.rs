//! Hidden keys as users meet them: a folder that looks empty, a file that appears when a folder is removed, and what
//! counts, listing, metrics and log say.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aws_sdk_s3::Client;
use rustix::io::Errno;
use serde_json::Value;

use crate::support::access::root_client;
use crate::support::cli::{cli, json};
use crate::support::program::{fail, succeed};
use crate::support::*;

/// A server with a bucket and its mount.
struct MountedBucket {
    runtime: tokio::runtime::Runtime,
    client: Client,
    mount: Mounted,
    server: Server,
}

impl MountedBucket {
    fn new() -> Self {
        let server = Server::start();
        make_bucket(&server, "shop", &[]);
        let mount = Mounted::new(&server, "shop", "m");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { runtime, client: root_client(&server), mount, server }
    }

    fn put(&self, keys: &[&str]) {
        for key in keys {
            let put = self.client.put_object().bucket("shop").key(*key).body(key.as_bytes().to_vec().into());
            self.runtime.block_on(put.send()).expect("the object is put");
        }
    }

    fn delete(&self, key: &str) {
        self.runtime.block_on(self.client.delete_object().bucket("shop").key(key).send()).expect("deleted");
    }

    /// Whether S3 has, as `key`, what `put` put under `was`.
    fn holds(&self, key: &str, was: &str) -> bool {
        self.runtime.block_on(async {
            let object = self.client.get_object().bucket("shop").key(key).send().await.expect("the object is there");
            object.body.collect().await.expect("read").into_bytes() == was.as_bytes()
        })
    }

    /// Objects and hidden keys, as `bucket show` counts them.
    fn counts(&self) -> (Option<u64>, Option<u64>) {
        let shown = json(&self.server, &["bucket", "show", "shop"]);
        (shown["objectCount"].as_u64(), shown["hiddenKeyCount"].as_u64())
    }

    /// Keys and reasons, as `bucket hidden` lists them.
    fn hidden(&self, more: &[&str]) -> Vec<(String, String)> {
        let listed = cli(&self.server, &[&["bucket", "hidden", "shop", "--output", "json"], more].concat()).ok();
        let lines = listed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let text = |line: &Value, field: &str| line[field].as_str().expect("a text").to_owned();
        lines.map(|line| (text(&line, "key"), text(&line, "reason"))).collect()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.mount.path().join(path)
    }

    fn logged(&self, words: &str) -> usize {
        self.server.log().lines().filter(|line| line.contains(words)).count()
    }
}

/// The result for a program that renames.
fn rename(from: PathBuf, to: impl AsRef<Path>) -> std::io::Result<()> {
    Ok(rustix::fs::rename(from, to.as_ref())?)
}

fn program(program: &str, args: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("LC_ALL", "C");
    command
}

here_and_elsewhere! {
    fn hidden_keys_are_counted_listed_and_logged_once() {
        need!(root_and_fuse());
        let mounted = MountedBucket::new();
        mounted.put(&["plain", "a/shown"]);
        assert_eq!((mounted.counts(), mounted.hidden(&[])), ((Some(2), Some(0)), vec![]));
        let long = format!("{}/x", "n".repeat(256));
        mounted.put(&["a//b", "a/./c", &long, "k", "k/new"]);
        assert_eq!(mounted.counts(), (Some(7), Some(4)));
        let listed = mounted.hidden(&[]);
        let expected = [("a/./c", "dot-name"), ("a//b", "empty-name"), ("k", "folder"), (long.as_str(), "long-name")];
        let expected: Vec<_> = expected.map(|(key, reason)| (key.to_owned(), reason.to_owned())).to_vec();
        assert_eq!(listed, expected);
        assert_eq!(mounted.hidden(&["--prefix", "a/"]), expected[..2]);
        let text = cli(&mounted.server, &["bucket", "hidden", "shop"]).ok();
        assert!(text.contains("\"a//b\"  empty-name: ") && text.contains("4 hidden"), "{text}");
        let first =
            wait_until(Duration::from_secs(5), || (mounted.logged("a key that mounts cannot show") > 0).then_some(()));
        first.expect("the log names the first hidden key");
        assert_eq!(mounted.logged("a key that mounts cannot show"), 1, "the log names no other hidden key");
        json(&mounted.server, &["snapshot", "create", "shop", "kept"]);
        let kept = cli(&mounted.server, &["bucket", "hidden", "kept", "--output", "json"]).ok();
        assert_eq!(kept.lines().count(), 4, "{kept}");
    }
}

here_and_elsewhere! {
    fn a_folder_with_hidden_keys_is_kept_and_the_log_says_why() {
        need!(root_and_fuse());
        let mounted = MountedBucket::new();
        mounted.put(&["d//old", "other"]);
        let root = mounted.mount.path();
        assert_eq!(std::fs::read_dir(mounted.path("d")).expect("a folder").count(), 0);
        // The copy contains the keys that the mount shows, and nothing is removed.
        succeed(&mut program("cp", &["-a", "d", "copy"], root));
        assert_eq!(std::fs::read_dir(mounted.path("copy")).expect("a folder").count(), 0);
        assert!(fail(&mut program("rmdir", &["d"], root)).contains("Directory not empty"));
        assert!(fail(&mut program("rm", &["-rf", "d"], root)).contains("Directory not empty"));
        let replaced = rename(mounted.path("copy"), mounted.path("d"));
        assert_eq!(replaced.expect_err("refused").raw_os_error(), Some(Errno::NOTEMPTY.raw_os_error()));
        assert!(mounted.holds("d//old", "d//old"));
        let words = "it holds keys that mounts cannot show";
        let logged = wait_until(Duration::from_secs(5), || (mounted.logged(words) > 0).then_some(()));
        logged.expect("the log says why");
        assert_eq!(mounted.logged(words), 1, "not at each call");
        // The directory moves as a whole, and can be removed once S3 has deleted the hidden keys.
        succeed(&mut program("mv", &["d", "e"], root));
        assert!(mounted.holds("e//old", "d//old"));
        assert_eq!(mounted.hidden(&[]), [("e//old".to_owned(), "empty-name".to_owned())]);
        std::fs::write(mounted.path("e/new"), "").expect("a file");
        mounted.delete("e//old");
        succeed(&mut program("rm", &["-r", "e"], root));
        assert_eq!(mounted.counts(), (Some(2), Some(0)));
    }
}

here_and_elsewhere! {
    fn a_file_hidden_by_a_folder_appears_when_the_folder_is_removed() {
        need!(root_and_fuse());
        let mounted = MountedBucket::new();
        let root = mounted.mount.path();
        mounted.put(&["p/k"]);
        assert!(mounted.path("p/k").is_file());
        mounted.put(&["p/k/new"]);
        assert!(mounted.path("p/k").is_dir(), "the folder is shown at once");
        let refused = std::fs::write(mounted.path("p/k"), "lost").expect_err("a folder is there");
        assert_eq!(refused.raw_os_error(), Some(Errno::ISDIR.raw_os_error()));
        // The directory and its content are removed; the file beside it stays and is shown.
        assert!(fail(&mut program("rm", &["-rf", "p"], root)).contains("Directory not empty"));
        assert_eq!(std::fs::read_to_string(mounted.path("p/k")).expect("a file"), "p/k");
        assert_eq!(mounted.counts(), (Some(1), Some(0)));
        succeed(&mut program("rm", &["-rf", "p"], root));
        // A link is no key: it is not counted, and is hidden and shown alike.
        symlink("target", mounted.path("link")).expect("a link");
        mounted.put(&["link/x"]);
        assert!(mounted.path("link").is_dir() && mounted.counts() == (Some(1), Some(0)));
        succeed(&mut program("mv", &["link", "moved"], root));
        assert_eq!(std::fs::read_link(mounted.path("link")).expect("the link").to_str(), Some("target"));
    }
}

here_and_elsewhere! {
    fn a_path_that_is_no_key_is_refused_by_every_call() {
        need!(root_and_fuse());
        let mounted = MountedBucket::new();
        // 1,004 bytes with its slash.
        let deep = ["d", "e", "f", "g"].map(|name| name.repeat(250)).join("/");
        std::fs::create_dir_all(mounted.path(&deep)).expect("folders");
        std::fs::write(mounted.path("file"), "1").expect("a file");
        let (fits, long) = (format!("{deep}/{}", "x".repeat(20)), mounted.path(&format!("{deep}/{}", "x".repeat(21))));
        let too_long = |done: std::io::Result<()>| {
            let refused = done.expect_err("too long");
            assert_eq!(refused.raw_os_error(), Some(Errno::NAMETOOLONG.raw_os_error()), "{refused}");
        };
        too_long(std::fs::write(&long, "1"));
        too_long(std::fs::create_dir(&long));
        too_long(symlink("target", &long));
        too_long(std::fs::hard_link(mounted.path("file"), &long));
        too_long(rustix::fs::mkfifoat(rustix::fs::CWD, &long, 0o600.into()).map_err(Into::into));
        too_long(rename(mounted.path("file"), &long));
        let relative = fail(&mut program("touch", &[&"x".repeat(21)], &mounted.path(&deep)));
        assert!(relative.contains("File name too long"), "a short relative path is no way around: {relative}");
        // A folder does not move to where a key below it would be too long.
        std::fs::write(mounted.path(&fits), "1").expect("1,024 bytes");
        too_long(rename(mounted.path(&"d".repeat(250)), mounted.path(&"d".repeat(251))));
        rename(mounted.path(&"d".repeat(250)), mounted.path(&"D".repeat(250))).expect("as long as before");
        let key = fits.replacen(&"d".repeat(250), &"D".repeat(250), 1);
        let got = mounted.runtime.block_on(mounted.client.get_object().bucket("shop").key(key).send());
        assert!(got.is_ok() && mounted.counts() == (Some(6), Some(0)), "{got:?}");
    }
}
