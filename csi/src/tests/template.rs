//! Volumes that begin with the content of a bucket.

use objstore::volume::{Make, Ownership, ROOT_INO, SetAttr, VolumeOptions};

use super::*;
use crate::capability::tests::block;

fn from_bucket(name: &str, bucket: &str, secrets: &HashMap<String, String>) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.into(),
        volume_capabilities: vec![writer()],
        parameters: HashMap::from([("fromBucket".to_owned(), bucket.to_owned())]),
        secrets: secrets.clone(),
        ..Default::default()
    }
}

fn owner() -> Ownership {
    Ownership { uid: 0, gid: 0, mode: 0o644, umask: 0 }
}

impl Fixture {
    async fn begin(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        Ok(self.controller.create_volume(Request::new(request)).await?.into_inner().volume.unwrap())
    }

    async fn put(&self, bucket: &str, file: &'static str, content: &[u8]) {
        let (store, bucket, content) = (self.store.clone(), name(bucket), content.to_vec());
        let write = move || {
            let volume = store.open_volume(&bucket, VolumeOptions::default()).unwrap();
            let ino = match volume.lookup(ROOT_INO, file) {
                Ok(found) => found.ino,
                Err(_) => volume.make(ROOT_INO, file, Make::File, owner()).unwrap().ino,
            };
            volume.set_attr(ino, SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
            volume.write(ino, 0, &content, false).unwrap();
        };
        tokio::task::spawn_blocking(write).await.unwrap();
    }

    fn object(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let (_, reader) = self.store.open_object(&name(bucket), &key.parse().unwrap(), None).ok()?;
        Some(reader.read(0, 1000).unwrap().to_vec())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_begins_with_the_content_of_the_bucket_of_its_class() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("golden", Some(Mode::Read)).await;
    f.put("golden", "file", b"content").await;
    for _ in 0..2 {
        let made = f.begin(from_bucket("pvc-1", "golden", &secrets)).await.unwrap();
        assert!(made.volume_id == "pvc-1" && made.content_source.is_none());
    }
    assert_eq!(f.object("pvc-1", "file").as_deref(), Some(&b"content"[..]));
    f.put("pvc-1", "file", b"changed").await;
    assert_eq!(f.object("golden", "file").as_deref(), Some(&b"content"[..]), "the template stays");
    // A snapshot stands still while its bucket changes.
    f.store.create_snapshot(&name("golden"), &name("golden-1")).await.unwrap();
    f.put("golden", "file", b"later").await;
    f.begin(from_bucket("pvc-2", "golden-1", &secrets)).await.unwrap();
    assert_eq!(f.object("pvc-2", "file").as_deref(), Some(&b"content"[..]));
    // A volume of this driver needs no key, and a repeated request is recognized by its bucket.
    f.begin(from_bucket("pvc-3", "pvc-1", &HashMap::new())).await.unwrap();
    assert_eq!(f.object("pvc-3", "file").as_deref(), Some(&b"changed"[..]));
    assert_eq!(code(f.begin(from_bucket("pvc-3", "golden", &secrets)).await), Code::AlreadyExists);
    f.create("plain").await;
    assert_eq!(code(f.begin(from_bucket("plain", "golden", &secrets)).await), Code::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_class_reads_a_bucket_without_a_key_of_it() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("golden", None).await;
    f.put("golden", "file", &[1; 3000]).await;
    assert_eq!(code(f.begin(from_bucket("pvc-1", "golden", &HashMap::new())).await), Code::PermissionDenied);
    assert_eq!(code(f.begin(from_bucket("pvc-1", "golden", &secrets)).await), Code::PermissionDenied, "no grant");
    f.secret_of_bob("golden", Some(Mode::Write)).await;
    assert_eq!(code(f.begin(from_bucket("pvc-1", "golden", &secrets)).await), Code::PermissionDenied, "it only writes");
    f.secret_of_bob("golden", Some(Mode::Read)).await;
    let mut guessed = secrets.clone();
    guessed.insert("secretAccessKey".into(), "guess".into());
    assert_eq!(code(f.begin(from_bucket("pvc-1", "golden", &guessed)).await), Code::Unauthenticated);
    assert_eq!(code(f.begin(from_bucket("pvc-1", "absent", &secrets)).await), Code::NotFound);
    assert_eq!(code(f.begin(from_bucket("pvc-1", "No Name", &secrets)).await), Code::InvalidArgument);
    let small = Some(CapacityRange { required_bytes: 1000, limit_bytes: 0 });
    let request = CreateVolumeRequest { capacity_range: small, ..from_bucket("pvc-1", "golden", &secrets) };
    assert_eq!(code(f.begin(request).await), Code::OutOfRange);
    let device = CreateVolumeRequest {
        capacity_range: Some(CapacityRange { required_bytes: 16_384, limit_bytes: 0 }),
        volume_capabilities: vec![block(access_mode::Mode::SingleNodeWriter)],
        ..from_bucket("pvc-1", "golden", &secrets)
    };
    assert_eq!(code(f.begin(device.clone()).await), Code::InvalidArgument, "it has no disk image");
    assert!(f.store.bucket(&name("pvc-1")).is_err(), "nothing is left of a refused request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_volume_begins_with_a_disk_image_that_lies_alone_in_its_bucket() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("golden", Some(Mode::Read)).await;
    let device = |name: &str| CreateVolumeRequest {
        capacity_range: Some(CapacityRange { required_bytes: 16_384, limit_bytes: 0 }),
        volume_capabilities: vec![block(access_mode::Mode::SingleNodeWriter)],
        ..from_bucket(name, "golden", &secrets)
    };
    f.put("golden", "disk.img", &[2; 8192]).await;
    assert_eq!(f.begin(device("pvc-1")).await.unwrap().capacity_bytes, 16_384);
    assert_eq!(f.object("pvc-1", "disk.img").unwrap(), [2; 1000]);
    // The image fits with the other object, but the disk grows to the whole size of the claim.
    f.put("golden", "notes", &[1; 3000]).await;
    let refused = f.begin(device("pvc-2")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("3000 bytes lie beside the file \"disk.img\" in \"golden\""), "{refused}");
    assert!(f.store.bucket(&name("pvc-2")).is_err(), "nothing is made");
    // A snapshot is refused like its bucket; an object without content takes no room.
    f.store.create_snapshot(&name("golden"), &name("golden-1")).await.unwrap();
    let of_snapshot = CreateVolumeRequest {
        parameters: HashMap::from([("fromBucket".to_owned(), "golden-1".to_owned())]),
        ..device("pvc-2")
    };
    assert_eq!(code(f.begin(of_snapshot).await), Code::InvalidArgument);
    f.put("golden", "notes", &[]).await;
    assert_eq!(f.begin(device("pvc-2")).await.unwrap().capacity_bytes, 16_384);
}

fn from_prefix(name: &str, prefix: &str, secrets: &HashMap<String, String>) -> CreateVolumeRequest {
    let mut request = from_bucket(name, "golden", secrets);
    request.parameters.insert("fromPrefix".to_owned(), prefix.to_owned());
    request
}

impl Fixture {
    /// Puts an object below folders.
    async fn put_below(&self, bucket: &str, folders: &[&str], file: &str, content: Vec<u8>) {
        let (store, bucket, file) = (self.store.clone(), name(bucket), file.to_owned());
        let folders: Vec<String> = folders.iter().map(|folder| (*folder).to_owned()).collect();
        let write = move || {
            let volume = store.open_volume(&bucket, VolumeOptions::default()).unwrap();
            let folder = folders.iter().fold(ROOT_INO, |parent, folder| match volume.lookup(parent, folder) {
                Ok(found) => found.ino,
                Err(_) => volume.make(parent, folder, Make::Directory, owner()).unwrap().ino,
            });
            let ino = volume.make(folder, &file, Make::File, owner()).unwrap().ino;
            volume.write(ino, 0, &content, false).unwrap();
        };
        tokio::task::spawn_blocking(write).await.unwrap();
    }

    /// Marks a volume as one whose content from the bucket `golden` was copied up to a key.
    async fn mark(&self, volume: &str, last: &str) {
        let mark = format!("{}:{last}", self.store.bucket(&name("golden")).unwrap().id);
        let attributes = BTreeMap::from([("csi.filling".to_owned(), mark)]);
        let set = objstore::store::SetBucket { attributes, ..Default::default() };
        self.store.set_bucket(&name(volume), set).await.unwrap();
    }

    fn keys(&self, bucket: &str) -> Vec<String> {
        let list = objstore::store::List { limit: 1000, ..Default::default() };
        let listed = self.store.list_objects(&name(bucket), &list).unwrap();
        listed.objects.into_iter().map(|object| object.key).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_begins_with_the_content_below_a_prefix_without_the_prefix() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("golden", Some(Mode::Read)).await;
    f.put("golden", "outside", b"outside").await;
    f.put_below("golden", &["models", "2026"], "a", b"first".to_vec()).await;
    f.put_below("golden", &["models", "2026", "deep"], "b", vec![7; 100_000]).await;
    f.put_below("golden", &["models", "2026x"], "c", b"beside".to_vec()).await;
    for _ in 0..2 {
        f.begin(from_prefix("pvc-1", "models/2026", &secrets)).await.unwrap();
    }
    assert_eq!(f.keys("pvc-1"), ["a", "deep/", "deep/b"], "a folder is an object, too");
    assert_eq!(f.object("pvc-1", "a").as_deref(), Some(&b"first"[..]));
    assert_eq!(f.object("pvc-1", "deep/b").unwrap(), [7; 1000]);
    assert!(!f.store.bucket(&name("pvc-1")).unwrap().attributes.contains_key("csi.filling"), "it is whole");
    f.put("pvc-1", "a", b"changed").await;
    assert_eq!(f.object("golden", "models/2026/a").as_deref(), Some(&b"first"[..]), "the template stays");
    // Another prefix, or none, is another volume.
    assert_eq!(code(f.begin(from_prefix("pvc-1", "models", &secrets)).await), Code::AlreadyExists);
    assert_eq!(code(f.begin(from_bucket("pvc-1", "golden", &secrets)).await), Code::AlreadyExists);
    // Of a snapshot, it is the state of that moment.
    f.store.create_snapshot(&name("golden"), &name("golden-1")).await.unwrap();
    f.put_below("golden", &["models", "2026"], "later", b"later".to_vec()).await;
    let mut request = from_prefix("pvc-2", "models/2026", &secrets);
    request.parameters.insert("fromBucket".to_owned(), "golden-1".to_owned());
    f.begin(request).await.unwrap();
    assert_eq!(f.keys("pvc-2"), ["a", "deep/", "deep/b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_prefix_leaves_no_volume() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("golden", None).await;
    f.put_below("golden", &["models"], "a", vec![1; 3000]).await;
    f.put_below("golden", &["models"], "b", vec![1; 3000]).await;
    assert_eq!(code(f.begin(from_prefix("pvc-1", "models", &HashMap::new())).await), Code::PermissionDenied);
    assert_eq!(code(f.begin(from_prefix("pvc-1", "models", &secrets)).await), Code::PermissionDenied, "no grant");
    f.secret_of_bob("golden", Some(Mode::Read)).await;
    assert_eq!(code(f.begin(from_prefix("pvc-1", "model", &secrets)).await), Code::NotFound);
    assert_eq!(code(f.begin(from_prefix("pvc-1", "a/../b", &secrets)).await), Code::InvalidArgument);
    let device = CreateVolumeRequest {
        volume_capabilities: vec![block(access_mode::Mode::SingleNodeWriter)],
        ..from_prefix("pvc-1", "models", &secrets)
    };
    assert_eq!(code(f.begin(device).await), Code::InvalidArgument);
    let small = Some(CapacityRange { required_bytes: 5000, limit_bytes: 0 });
    let request = CreateVolumeRequest { capacity_range: small, ..from_prefix("pvc-1", "models", &secrets) };
    assert_eq!(code(f.begin(request).await), Code::OutOfRange);
    assert!(f.store.bucket(&name("pvc-1")).is_err(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_a_crash_interrupted_is_continued_and_used_only_when_it_is_whole() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("golden", Some(Mode::Read)).await;
    for number in 0..600 {
        f.put_below("golden", &["models"], &format!("{number:03}"), vec![1; 10]).await;
    }
    f.begin(from_prefix("pvc-1", "models", &secrets)).await.unwrap();
    assert_eq!(f.keys("pvc-1").len(), 600, "more than two pages");
    // As a crash leaves it after the first pages: the mark says what was copied last.
    let half = f.keys("pvc-1").into_iter().skip(300);
    for key in half {
        let request = objstore::store::DeleteObject::new(key.parse().unwrap());
        f.store.delete_object(&name("pvc-1"), request).await.unwrap();
    }
    f.mark("pvc-1", "models/299").await;
    let publish = ControllerPublishVolumeRequest {
        volume_id: "pvc-1".into(),
        node_id: NODE.into(),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    let refused = f.controller.controller_publish_volume(Request::new(publish)).await;
    assert_eq!(code(refused), Code::FailedPrecondition);
    assert_eq!(code(f.stage(super::node::stage(&f, "pvc-1")).await), Code::FailedPrecondition);
    assert_eq!(code(f.begin(from_bucket("pvc-2", "pvc-1", &HashMap::new())).await), Code::FailedPrecondition);
    f.begin(from_prefix("pvc-1", "models", &secrets)).await.unwrap();
    assert_eq!(f.keys("pvc-1").len(), 600);
    assert_eq!(f.store.usage(&name("pvc-1")).unwrap().bytes, 6000, "nothing is counted twice");
    // A bucket of the same name is another one, perhaps of another account: what was begun goes, and the claim begins again.
    f.mark("pvc-1", "models/299").await;
    f.store.delete_bucket(&name("golden"), objstore::store::Deletion::Force).await.unwrap();
    let secrets = f.foreign_bucket("golden", Some(Mode::Read)).await;
    f.put_below("golden", &["models"], "other", vec![1; 10]).await;
    assert_eq!(code(f.begin(from_prefix("pvc-1", "models", &secrets)).await), Code::NotFound);
    assert!(f.store.bucket(&name("pvc-1")).is_err());
    f.begin(from_prefix("pvc-1", "models", &secrets)).await.unwrap();
    assert_eq!(f.keys("pvc-1"), ["other"]);
    // Without the key there is no more to copy: what was begun goes.
    f.mark("pvc-1", "models/299").await;
    assert_eq!(code(f.begin(from_prefix("pvc-1", "models", &HashMap::new())).await), Code::PermissionDenied);
    assert!(f.store.bucket(&name("pvc-1")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_with_a_source_of_its_own_begins_with_that() {
    use volume_content_source::{Type, VolumeSource};
    let f = fixture().await;
    for (volume, content) in [("golden", b"golden"), ("source", b"source")] {
        f.create(volume).await;
        f.put(volume, "file", content).await;
    }
    let source = Type::Volume(VolumeSource { volume_id: "source".into() });
    let volume_content_source = Some(VolumeContentSource { r#type: Some(source) });
    let request = CreateVolumeRequest { volume_content_source, ..from_bucket("pvc-1", "golden", &HashMap::new()) };
    for _ in 0..2 {
        assert!(f.begin(request.clone()).await.unwrap().content_source.is_some());
    }
    assert_eq!(f.object("pvc-1", "file").as_deref(), Some(&b"source"[..]));
}
