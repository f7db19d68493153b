//! A clock that leaps by a year, in either direction, under a running server.
//!
//! - A preloaded library adds an offset from a file to the time of day. It is compiled here.
//! - Signatures of clients with a correct clock are refused. No stored data is lost, and versions keep their order.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{
    BucketLifecycleConfiguration, ExpirationStatus, LifecycleExpiration, LifecycleRule, LifecycleRuleFilter,
    ObjectLockMode,
};

use super::sample::{BUCKET, Refusal, Sample};
use crate::support::access::{code, root_client};
use crate::support::cli::{check_store, json};
use crate::support::*;

const YEAR: i64 = 365 * 24 * 60 * 60;
const LIMIT: Duration = Duration::from_secs(60);

const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long *ahead;
__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("AMPHORA_TEST_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *at = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
  if (at != MAP_FAILED) ahead = at;
  close(file);
}
int clock_gettime(clockid_t id, struct timespec *now) {
  int done = syscall(SYS_clock_gettime, id, now);
  if (!done && id == CLOCK_REALTIME && ahead) now->tv_sec += *ahead;
  return done;
}
"#;

/// A clock that the test can set.
struct Clock {
    /// The file that contains the offset in seconds.
    file: PathBuf,
    library: PathBuf,
    _dir: tempfile::TempDir,
}

impl Clock {
    fn new() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("a folder: {error}"))?;
        let [source, library, file] = ["clock.c", "clock.so", "ahead"].map(|name| dir.path().join(name));
        std::fs::write(&source, SHIM).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut command = Command::new(required("cc")?);
        drop(run(command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source), LIMIT)?.ok());
        let clock = Self { file, library, _dir: dir };
        clock.set(0);
        Ok(clock)
    }

    /// Sets how many seconds the clock is ahead.
    fn set(&self, ahead: i64) {
        // Written in place, since a server has the file mapped.
        let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&self.file);
        let file = file.expect("the file of the clock");
        std::os::unix::fs::FileExt::write_all_at(&file, &ahead.to_le_bytes(), 0).expect("set");
    }

    fn server(&self) -> Server {
        let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
        let options = Options::default().env("LD_PRELOAD", &text(&self.library));
        options.env("AMPHORA_TEST_CLOCK", &text(&self.file)).start()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_by_a_year_loses_nothing() {
    need!(root_and_fuse());
    let clock = need!(Clock::new());
    let mut server = clock.server();
    make_bucket(&server, BUCKET, &["--versioning"]);
    make_bucket(&server, "rules", &[]);
    let client = root_client(&server);
    let (mut sample, mut order) = (Sample::default(), Vec::new());
    for len in [500, 60_000, 600_000] {
        sample.put(&client, &format!("before/{len}"), len).await.expect("put");
    }
    expire_after_a_day(&client).await;
    client.put_object().bucket("rules").key("young").body(b"kept".to_vec().into()).send().await.expect("put");
    for ahead in [YEAR, 0, -YEAR, 0] {
        clock.set(ahead);
        if ahead != 0 {
            // The SDK's client learns of the difference and uses it from then on.
            let refused =
                sample.put(&root_client(&server), "refused", 10).await.expect_err("the signature is a year off");
            assert_eq!((refused.code.as_str(), refused.status), ("RequestTimeTooSkewed", 403));
        }
        through_a_mount(&server, ahead, &mut order).await;
        // Files that were open continue after a kill as well.
        server.kill9();
        server.restart();
        if ahead == YEAR {
            let said = || server.log().contains("the rules wait for a day").then_some(());
            wait_until(LIMIT, said).expect("the log says why nothing is deleted");
        }
        clock.set(0);
        sample.whole(&client).await;
        assert_eq!(
            versions(&client, "ordered").await,
            order,
            "versions are listed newest first, whichever time they have"
        );
        let young = client.head_object().bucket("rules").key("young").send().await;
        young.unwrap_or_else(|error| panic!("a rule of one day deleted it: {error:?}"));
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
    assert_eq!(server.terminate().code(), Some(0));
    check_store(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_ends_by_the_clock_and_not_by_a_clock_set_back() {
    let clock = need!(Clock::new());
    let server = clock.server();
    let client = root_client(&server);
    client.create_bucket().bucket("locked").object_lock_enabled_for_bucket(true).send().await.expect("made");
    let until = aws_sdk_s3::primitives::DateTime::from_secs(now(&server) + YEAR / 12);
    let put = client.put_object().bucket("locked").key("k").body(b"kept".to_vec().into());
    let put = put.object_lock_mode(ObjectLockMode::Compliance).object_lock_retain_until_date(until);
    let id = put.send().await.expect("put").version_id.expect("an id");
    let delete = || async {
        code(root_client(&server).delete_object().bucket("locked").key("k").version_id(&id).send().await.map(drop))
    };
    assert_eq!(delete().await, "AccessDenied");
    clock.set(-300);
    assert_eq!(delete().await, "AccessDenied", "set back");
    // As far ahead as signatures permit; a larger difference is visible to the clock itself only.
    clock.set(600);
    assert_eq!(delete().await, "AccessDenied", "a little ahead");
    clock.set(0);
    let object = client.get_object().bucket("locked").key("k").send().await.expect("kept");
    assert_eq!(object.body.collect().await.expect("a body").to_vec(), b"kept");
}

/// The time of this process in seconds, from the file system.
fn now(server: &Server) -> i64 {
    let file = server.home().path().join("now");
    std::fs::write(&file, "now").expect("written");
    std::os::unix::fs::MetadataExt::mtime(&std::fs::metadata(&file).expect("there"))
}

async fn expire_after_a_day(client: &Client) {
    let rule = LifecycleRule::builder().id("day").status(ExpirationStatus::Enabled);
    let rule = rule.filter(LifecycleRuleFilter::builder().prefix("").build());
    let rule = rule.expiration(LifecycleExpiration::builder().days(1).build()).build().expect("a rule");
    let rules = BucketLifecycleConfiguration::builder().rules(rule).build().expect("rules");
    let put = client.put_bucket_lifecycle_configuration().bucket("rules").lifecycle_configuration(rules);
    put.send().await.unwrap_or_else(|error| panic!("{:?}", Refusal::of(&error)));
}

/// A mount needs no signature: it writes at any time of the clock. Each write is a version.
async fn through_a_mount(server: &Server, ahead: i64, order: &mut Vec<String>) {
    let mount = Mounted::new(server, BUCKET, "m");
    let path = mount.path().join("ordered");
    let content = format!("ahead by {ahead}, after {}", order.len());
    std::fs::write(&path, &content).expect("written");
    assert_eq!(std::fs::read(&path).expect("read"), content.as_bytes());
    let modified = std::os::unix::fs::MetadataExt::mtime(&std::fs::metadata(&path).expect("there"));
    let now = now(server);
    // On opening with O_TRUNC and on writing, the kernel sets times by its own clock, which did not jump.
    let leapt = (modified - now - ahead).abs() < 600 || (modified - now).abs() < 600;
    assert!(leapt, "modified {} s from now", modified - now);
    mount.unmount(server);
    json(server, &["status"]);
    order.insert(0, content);
}

/// The contents of a key's versions, newest first.
async fn versions(client: &Client, key: &str) -> Vec<String> {
    let listed = client.list_object_versions().bucket(BUCKET).prefix(key).send().await.expect("a listing");
    let mut held = Vec::new();
    for version in listed.versions().iter().filter(|version| version.size() != Some(0)) {
        let id = version.version_id().expect("an id");
        let object = client.get_object().bucket(BUCKET).key(key).version_id(id).send().await.expect("there");
        let body = object.body.collect().await.expect("a body").to_vec();
        held.push(String::from_utf8(body).expect("text"));
    }
    held
}
