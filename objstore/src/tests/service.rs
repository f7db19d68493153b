//! The store as a service of files: the suite of the trait, directly and behind the codec of the wire.

use objstore_files::FileSession;
use objstore_files_testing::Encoded;
use objstore_files_testing::conformance::{Subject, tests};

use super::test_store::TestStore;
use crate::name::BucketName;
use crate::volume::{Volume, VolumeOptions};

/// A bucket of a store of its own.
struct Local {
    test: TestStore,
    bucket: BucketName,
    serve: fn(Volume) -> FileSession,
}

impl Local {
    fn session(&self, options: VolumeOptions) -> FileSession {
        (self.serve)(self.test.store.open_volume(&self.bucket, options).unwrap())
    }
}

impl Subject for Local {
    fn open(&self) -> FileSession {
        self.session(VolumeOptions::default())
    }

    fn open_read_only(&self) -> FileSession {
        self.session(VolumeOptions { read_only: true, ..VolumeOptions::default() })
    }

    fn open_persistent(&self) -> FileSession {
        self.session(VolumeOptions { session: Some(self.test.store.new_session()), ..VolumeOptions::default() })
    }

    fn put(&self, key: &str, content: &[u8]) {
        self.test.put(&self.bucket, key, content).unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "a failed test is named")]
fn run(serve: fn(Volume) -> FileSession) {
    for (name, test) in tests() {
        println!("{name}");
        let store = TestStore::in_memory();
        let local = Local { bucket: store.bucket("bucket"), test: store, serve };
        test(&local);
        local.test.collect();
        local.test.audit();
    }
}

#[test]
fn the_store_keeps_what_the_seam_promises() {
    run(FileSession::from);
}

#[test]
fn what_the_seam_promises_survives_the_codec() {
    run(|volume| FileSession::new(Encoded(volume)));
}
