//! A server in a memory cgroup of 300 MiB, page cache included, under more load than that.

use std::path::PathBuf;
use std::time::Duration;

use super::sample::{BUCKET, Sample};
use crate::support::access::root_client;
use crate::support::cli::check_store;
use crate::support::*;

const MEMORY_BYTES: u64 = 300 << 20;
const CLIENTS: usize = 24;
const OBJECT: usize = 4 << 20;

/// A control group with a memory limit; it is removed when no process is in it any more.
struct Group(PathBuf);

impl Group {
    /// A group below that of this process, in either version of the hierarchy.
    fn new() -> Result<Self, String> {
        let mine =
            std::fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
        let path_of = |controller: &str| {
            let mut fields = mine.lines().map(|line| line.splitn(3, ':').collect::<Vec<_>>());
            fields.find(|fields| fields.get(1) == Some(&controller)).and_then(|fields| fields.get(2).copied())
        };
        let hierarchies = [
            ("/sys/fs/cgroup/memory", path_of("memory"), "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", path_of(""), "memory.max"),
        ];
        for (root, path, limit) in hierarchies {
            let Some(path) = path else { continue };
            let dir = PathBuf::from(format!("{root}{path}/amphora-{}", std::process::id()));
            if std::fs::create_dir(&dir).is_ok() {
                let group = Self(dir);
                if std::fs::write(group.0.join(limit), MEMORY_BYTES.to_string()).is_ok() {
                    return Ok(group);
                }
            }
        }
        Err("a memory limit needs a cgroup with the memory controller in which this process may create a child cgroup"
            .to_owned())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The group is removed once its server has ended.
        let _ = wait_until(Duration::from_secs(10), || std::fs::remove_dir(&self.0).ok());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_little_memory_survives_much_load() {
    need!(root_and_fuse());
    let group = need!(Group::new());
    let enter = format!("echo $$ >{}/cgroup.procs; exec \"$@\"", group.0.display());
    let mut server = Options::default().under(["sh", "-c", &enter, "sh"]).start();
    make_bucket(&server, BUCKET, &[]);
    let pid = server.pid();
    let mount = Mounted::new(&server, BUCKET, "m");
    let client = root_client(&server);
    let crowd: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut sample = Sample::default();
                for round in 0..amount(3, 50) {
                    let key = format!("{number}/{round}");
                    let put = sample.put(&client, &key, OBJECT + number).await;
                    // A server with too little memory may ask the client to try again later.
                    put.unwrap_or_else(|refusal| assert_eq!(refusal.status, 503, "{refusal:?}"));
                }
                sample.whole(&client).await;
                sample.keys().len()
            })
        })
        .collect();
    let (dir, content) = (mount.path().to_owned(), vec![7; 16 << 20]);
    let program = std::thread::spawn(move || {
        for number in 0..4 {
            std::fs::write(dir.join(format!("mounted-{number}")), &content).expect("written");
            assert!(std::fs::read(dir.join(format!("mounted-{number}"))).expect("read") == content);
        }
    });
    let mut put = 0;
    for client in crowd {
        put += client.await.expect("no client read wrong data");
    }
    program.join().expect("no program read wrong data");
    assert!(put > CLIENTS, "only {put} objects were put");
    assert_eq!(server.pid(), pid, "it is the same process");
    mount.unmount(&server);
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
    drop(server);
    drop(group);
}
