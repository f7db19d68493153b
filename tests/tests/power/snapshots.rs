//! Snapshots and clones under a program that writes: an acknowledged one has the files' content of its moment, byte for
//! byte, though the program never synced.

use std::ffi::OsString;
use std::io::Result;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aws_sdk_s3::Client;
use rustix::io::Errno;

use super::{BUCKET, Program, Promises};
use crate::support::access::root_client;
use crate::support::*;

const FILES: usize = 3;
/// The longest write, and the largest offset of a write.
const LONGEST: usize = 20_000;
/// Writes between two snapshots.
const BETWEEN: usize = 4;
/// Seconds that a command may take.
const LIMIT: u64 = 60;

/// A snapshot or a clone that was asked for.
struct Taken {
    name: String,
    clone: bool,
    files: Vec<Vec<u8>>,
    acknowledged: bool,
}

pub struct Snapshots {
    /// The program and the environment of the commands.
    program: OsString,
    environment: Vec<(OsString, OsString)>,
    client: Client,
    files: Vec<Vec<u8>>,
    taken: Vec<Taken>,
    number: usize,
}

impl Snapshots {
    pub fn new(server: &Server) -> Self {
        let command = server.cli([""; 0]);
        let environment = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let (program, environment) = (command.get_program().to_owned(), environment.collect());
        let (files, taken) = (vec![Vec::new(); FILES], Vec::new());
        Self { program, environment, client: root_client(server), files, taken, number: 0 }
    }

    fn ask(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        let asked = run(command.args(args).envs(self.environment.iter().cloned()), limit(LIMIT));
        if asked.is_ok_and(|asked| asked.status.success()) { Ok(()) } else { Err(Errno::IO.into()) }
    }

    fn write(&mut self, dir: &Path, rng: &mut Rng) -> Result<()> {
        let (number, at) = (rng.below(FILES), rng.below(LONGEST));
        let len = 1 + rng.below(LONGEST);
        let bytes = rng.bytes(len);
        let file = std::fs::OpenOptions::new().write(true).open(dir.join(name(number)))?;
        file.write_all_at(&bytes, at as u64)?;
        let held = &mut self.files[number];
        held.resize(held.len().max(at + len), 0);
        held[at..at + len].copy_from_slice(&bytes);
        Ok(())
    }

    /// Requests a snapshot, or a clone of one.
    fn take(&mut self, of: Option<&str>, promises: &mut Promises) -> Result<String> {
        self.number += 1;
        let name = format!("taken-{}", self.number);
        let (files, clone) = (self.files.clone(), of.is_some());
        self.taken.push(Taken { name: name.clone(), clone, files, acknowledged: false });
        match of {
            Some(snapshot) => self.ask(&["bucket", "create", &name, "--from-snapshot", snapshot])?,
            None => self.ask(&["snapshot", "create", BUCKET, &name])?,
        }
        promises.count()?;
        self.taken.last_mut().expect("it was asked for").acknowledged = true;
        Ok(name)
    }

    async fn read(&self, bucket: &str, number: usize) -> Option<Vec<u8>> {
        let key = format!("{}/{}", self.name(), name(number));
        let object = self.client.get_object().bucket(bucket).key(&key).send().await;
        let object = object.map_err(|error| (error.raw_response().map(|raw| raw.status().as_u16()), error));
        match object {
            Ok(object) => Some(object.body.collect().await.expect("a whole body").to_vec()),
            Err((Some(404), _)) => None,
            Err((_, error)) => panic!("{bucket}/{key}: {error:?}"),
        }
    }

    async fn whole(&self, taken: &Taken, cycle: usize) {
        for (number, expected) in taken.files.iter().enumerate() {
            let seen = self.read(&taken.name, number).await;
            let len = seen.as_ref().map(Vec::len);
            let is_absent = seen.is_none() && !taken.acknowledged;
            assert!(
                is_absent || seen.as_ref() == Some(expected),
                "cycle {cycle}: {} of {} has {len:?} bytes that are not the {} it had when it was taken, acknowledged: {}",
                name(number),
                taken.name,
                expected.len(),
                taken.acknowledged
            );
        }
    }
}

impl Program for Snapshots {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    fn begin(&mut self, dir: &Path) -> Result<()> {
        (0..FILES).try_for_each(|number| std::fs::write(dir.join(name(number)), b""))?;
        super::sync_path(dir)
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        loop {
            for _ in 0..BETWEEN {
                self.write(dir, rng)?;
            }
            let snapshot = self.take(None, promises)?;
            if rng.below(2) == 0 {
                self.take(Some(&snapshot), promises)?;
            }
            // Each sync waits for the whole disk, to which others write as well.
            std::thread::sleep(Duration::from_millis(rng.below(60) as u64));
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        let taken = std::mem::take(&mut self.taken);
        let look = async {
            for taken in &taken {
                self.whole(taken, cycle).await;
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(look));
        for Taken { name, clone, acknowledged, .. } in taken.iter().rev() {
            let gone = if *clone {
                self.ask(&["bucket", "delete", name, "--force"])
            } else {
                self.ask(&["snapshot", "delete", name])
            };
            assert!(gone.is_ok() || !acknowledged, "cycle {cycle}: {name} cannot be deleted");
        }
        let there = (0..FILES).map(|number| std::fs::read(dir.join(name(number))).expect("its name was synced"));
        self.files = there.collect();
    }
}

fn name(number: usize) -> String {
    format!("file-{number}")
}
