//! Every Secret as a mount: through CSI, and through `amphora mount --credentials`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::csi::v1::*;
use rustix::io::Errno;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::callers::{BUCKET, CALLERS, Caller, SNAPSHOT, World};
use crate::signatures::Request;
use crate::support::*;

type Secrets = HashMap<String, String>;

/// What a Secret gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountAccess {
    ReadWrite,
    ReadOnly,
    Nothing(Code),
}

fn mount_access(caller: Caller) -> MountAccess {
    match caller {
        Caller::Root | Caller::Owner | Caller::Keeper | Caller::Both => MountAccess::ReadWrite,
        Caller::Reader => MountAccess::ReadOnly,
        Caller::Deleted | Caller::Rotated | Caller::DeletedAccount | Caller::WrongSecret => {
            MountAccess::Nothing(Code::Unauthenticated)
        }
        _ => MountAccess::Nothing(Code::PermissionDenied),
    }
}

/// The callers that have a key, and therefore a Secret.
fn key_holders() -> impl Iterator<Item = Caller> {
    CALLERS.into_iter().filter(|caller| !matches!(caller, Caller::Expired | Caller::OldSignature))
}

/// The Secrets that COSI makes: `BucketInfo` of v1alpha1, and the keys of both forms of v1alpha2.
fn secrets(world: &World, caller: Caller) -> Vec<(&'static str, Secrets)> {
    if caller == Caller::Anonymous {
        return vec![("none", Secrets::new())];
    }
    let key = world.key(caller);
    let info = serde_json::json!({"metadata": {"name": "bc-1", "creationTimestamp": null}, "spec": {
        "bucketName": BUCKET, "authenticationType": "KEY", "secretAzure": null, "protocols": ["s3"],
        "secretS3": {"endpoint": world.server.s3(), "region": "us-east-1", "accessKeyID": key.access_key_id,
            "accessSecretKey": key.secret_access_key}}});
    let pair = |id: &str, secret: &str| {
        Secrets::from([(id.to_owned(), key.access_key_id.clone()), (secret.to_owned(), key.secret_access_key.clone())])
    };
    vec![
        ("v1alpha1", Secrets::from([("BucketInfo".to_owned(), info.to_string())])),
        ("v1alpha2", pair("COSI_S3_ACCESS_KEY_ID", "COSI_S3_ACCESS_SECRET_KEY")),
        ("v1alpha2, of AWS", pair("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
    ]
}

/// What can be done at a path that shows `k`.
#[track_caller]
fn tried(at: &Path, name: &str) -> MountAccess {
    assert_eq!(fs::read(at.join("k")).expect("it reads"), b"content of k");
    match fs::write(at.join(name), "written") {
        Ok(()) => MountAccess::ReadWrite,
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ROFS) => MountAccess::ReadOnly,
        Err(error) => panic!("writing: {error}"),
    }
}

/// The node's side of CSI.
struct Node<'a> {
    world: &'a World,
    client: NodeClient<Channel>,
}

fn capability() -> Option<VolumeCapability> {
    Some(VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    })
}

impl Node<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.world.server.home().path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a path of ours").to_owned()
    }

    async fn stage(&mut self, volume: &str, secrets: &Secrets) -> Result<(), Status> {
        fs::create_dir_all(self.path("staged")).expect("made");
        let request = NodeStageVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.text("staged"),
            volume_capability: capability(),
            secrets: secrets.clone(),
            ..Default::default()
        };
        self.client.node_stage_volume(request).await.map(drop)
    }

    async fn publish(&mut self, volume: &str, secrets: &Secrets) -> Result<PathBuf, Status> {
        let request = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.text("staged"),
            target_path: self.text("shown"),
            volume_capability: capability(),
            secrets: secrets.clone(),
            ..Default::default()
        };
        self.client.node_publish_volume(request).await.map(|_| self.path("shown"))
    }

    async fn unpublish(&mut self, volume: &str) {
        let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: self.text("shown") };
        self.client.node_unpublish_volume(request).await.expect("unpublished");
    }

    async fn unstage(&mut self, volume: &str) {
        let staging_target_path = self.text("staged");
        let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path };
        self.client.node_unstage_volume(request).await.expect("unstaged");
    }
}

#[tokio::test]
async fn a_secret_mounts_with_the_rights_of_its_grant_through_csi() {
    need!(root_and_fuse());
    let world = World::new();
    let client = NodeClient::new(grpc::channel(&world.server.ready().socket("csi")).await);
    let mut node = Node { world: &world, client };
    for (caller, (form, secrets)) in
        key_holders().flat_map(|caller| secrets(&world, caller).into_iter().map(move |form| (caller, form)))
    {
        let what = format!("{caller:?}, {form}");
        // NodeStageVolume with this Secret; then NodePublishVolume of a volume that root staged with all rights.
        match (mount_access(caller), node.stage(BUCKET, &secrets).await) {
            (MountAccess::Nothing(code), Err(status)) => assert_eq!(status.code(), code, "{what}: {status}"),
            (MountAccess::Nothing(_), Ok(())) => panic!("{what}: it was staged"),
            (_, staged) => {
                staged.unwrap_or_else(|status| panic!("{what}: {status}"));
                let shown = node.publish(BUCKET, &Secrets::new()).await.expect("published");
                assert_eq!(tried(&shown, "by-stage"), mount_access(caller), "{what}");
                node.unpublish(BUCKET).await;
                node.unstage(BUCKET).await;
            }
        }
        node.stage(BUCKET, &super::mounts::secrets(&world, Caller::Root)[0].1).await.expect("staged by root");
        match (mount_access(caller), node.publish(BUCKET, &secrets).await) {
            // NodePublishVolume without a Secret has the rights of NodeStageVolume.
            (_, Ok(shown)) if caller == Caller::Anonymous => {
                assert_eq!(tried(&shown, "by-nobody"), MountAccess::ReadWrite);
            }
            (MountAccess::Nothing(code), Err(status)) => assert_eq!(status.code(), code, "{what}: {status}"),
            (MountAccess::Nothing(_), Ok(_)) => panic!("{what}: it was published"),
            (_, shown) => assert_eq!(tried(&shown.expect("published"), "by-publish"), mount_access(caller), "{what}"),
        }
        node.unpublish(BUCKET).await;
        node.unstage(BUCKET).await;
    }
    // A snapshot can be read by those who may read its bucket, and written by no one.
    for caller in key_holders() {
        let (_, secrets) = secrets(&world, caller).swap_remove(0);
        match (mount_access(caller), node.stage(SNAPSHOT, &secrets).await) {
            (MountAccess::Nothing(code), staged) => assert_eq!(staged.expect_err("refused").code(), code, "{caller:?}"),
            (_, staged) => {
                staged.unwrap_or_else(|status| panic!("{caller:?}: {status}"));
                let shown = node.publish(SNAPSHOT, &Secrets::new()).await.expect("published");
                assert_eq!(tried(&shown, "never"), MountAccess::ReadOnly, "{caller:?}");
                node.unpublish(SNAPSHOT).await;
                node.unstage(SNAPSHOT).await;
            }
        }
    }
    assert_eq!(cli::json(&world.server, &["status"])["mounts"], serde_json::json!([]));
}

#[test]
fn a_key_mounts_with_the_rights_of_its_grant_on_the_command_line() {
    need!(root_and_fuse());
    let world = World::new();
    let home = world.server.home().path();
    let (file, dir) = (home.join("credentials"), home.join("mounted"));
    fs::create_dir(&dir).expect("made");
    let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
    let args = |bucket: &str| ["mount".to_owned(), bucket.to_owned(), text(&dir), "--credentials".into(), text(&file)];
    for caller in key_holders().filter(|caller| *caller != Caller::Anonymous) {
        let Credentials { access_key_id, secret_access_key } = world.key(caller);
        let lines =
            format!("[default]\naws_access_key_id = {access_key_id}\naws_secret_access_key = {secret_access_key}\n");
        write_private(&file, lines);
        for (bucket, opened) in [(BUCKET, mount_access(caller)), (SNAPSHOT, mount_access(caller))] {
            let args = args(bucket);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            if let MountAccess::Nothing(_) = opened {
                let said = cli::refusal(&world.server, &args, 1);
                assert!(said.contains(&access_key_id) && !said.contains(&secret_access_key), "{caller:?}: {said}");
                continue;
            }
            world.admin(&args);
            let expected = if bucket == SNAPSHOT { MountAccess::ReadOnly } else { opened };
            assert_eq!(tried(&dir, "by-command"), expected, "{caller:?} {bucket}");
            world.admin(&["umount", &text(&dir)]);
        }
    }
}

/// Revoked rights are refused at the next call, also through an existing mount.
#[test]
fn a_revoked_grant_closes_its_mount() {
    need!(root_and_fuse());
    let world = World::new();
    let home = world.server.home().path();
    let (file, dir) = (home.join("credentials"), home.join("mounted"));
    fs::create_dir(&dir).expect("made");
    let Credentials { access_key_id, secret_access_key } = world.key(Caller::Both);
    write_private(
        &file,
        format!("[default]\naws_access_key_id={access_key_id}\naws_secret_access_key={secret_access_key}\n"),
    );
    let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
    world.admin(&["mount", BUCKET, &text(&dir), "--credentials", &text(&file)]);
    assert_eq!(tried(&dir, "before"), MountAccess::ReadWrite);
    world.admin(&["grant", "add", BUCKET, "--account", "both", "--mode", "ro"]);
    assert_eq!(fs::read(dir.join("k")).expect("it reads"), b"content of k");
    assert!(fs::write(dir.join("after"), "x").is_err(), "only reading is granted");
    world.admin(&["grant", "remove", BUCKET, "--account", "both"]);
    assert!(fs::read(dir.join("k")).is_err(), "without a grant the mount refuses to read");
    let names = fs::read_dir(&dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    assert!(names.is_err(), "nor listed: {names:?}");
    world.admin(&["umount", &text(&dir)]);
}

/// A policy that denies access removes or limits the rights of mounts made with a key, before and after; it does not
/// affect the administrator's mounts.
#[test]
fn a_policy_that_denies_closes_or_narrows_mounts() {
    need!(root_and_fuse());
    let world = World::new();
    let home = world.server.home().path();
    let (file, dir, ours) = (home.join("credentials"), home.join("mounted"), home.join("ours"));
    for dir in [&dir, &ours] {
        fs::create_dir(dir).expect("made");
    }
    let Credentials { access_key_id, secret_access_key } = world.key(Caller::Both);
    let lines = format!("[default]\naws_access_key_id={access_key_id}\naws_secret_access_key={secret_access_key}\n");
    write_private(&file, lines);
    let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
    let asked = |method: &'static str| Request::new(method, format!("/{BUCKET}")).query("policy=");
    let put = |principal: &str, action: &str, condition: &str| {
        let statement = format!(
            r#"{{"Effect": "Deny", "Principal": {principal}, "Action": "{action}",
            "Resource": "arn:aws:s3:::{BUCKET}/*", "Condition": {{{condition}}}}}"#
        );
        let policy = format!(r#"{{"Version": "2012-10-17", "Statement": [{statement}]}}"#);
        world.must(Caller::Owner, &asked("PUT").body(policy));
    };
    let mount = ["mount", BUCKET, &text(&dir), "--credentials", &text(&file)].map(str::to_owned);
    let mount: Vec<&str> = mount.iter().map(String::as_str).collect();
    world.admin(&mount);
    world.admin(&["mount", BUCKET, &text(&ours)]);
    assert_eq!(tried(&dir, "before"), MountAccess::ReadWrite);

    // A statement that does not name the account, or cannot apply to a mount, changes nothing.
    put(r#"{"AWS": "keeper"}"#, "s3:*", "");
    assert_eq!(tried(&dir, "others"), MountAccess::ReadWrite);
    put(r#""*""#, "s3:*", r#""Bool": {"aws:SecureTransport": "false"}"#);
    assert_eq!(tried(&dir, "secure"), MountAccess::ReadWrite);

    put(r#"{"AWS": "both"}"#, "s3:DeleteObject", "");
    assert_eq!(fs::read(dir.join("k")).expect("it reads"), b"content of k");
    assert!(fs::remove_file(dir.join("before")).is_err() && fs::write(dir.join("denied"), "x").is_err());
    assert_eq!(tried(&ours, "ours"), MountAccess::ReadWrite);
    world.admin(&["umount", &text(&dir)]);
    world.admin(&mount);
    assert_eq!(tried(&dir, "narrow"), MountAccess::ReadOnly, "a new mount is read-only too");

    put(r#""*""#, "s3:GetObject", r#""NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}"#);
    assert!(fs::read(dir.join("k")).is_err(), "the kernel's cache does not answer the read");
    assert!(fs::read_dir(&dir).and_then(Iterator::collect::<Result<Vec<_>, _>>).is_err());
    world.admin(&["umount", &text(&dir)]);
    let said = cli::refusal(&world.server, &mount, 1);
    assert!(said.contains("policy") && said.contains(BUCKET), "{said}");
    assert_eq!(tried(&ours, "ours-again"), MountAccess::ReadWrite);

    world.must(Caller::Owner, &asked("DELETE"));
    world.admin(&mount);
    assert_eq!(tried(&dir, "after"), MountAccess::ReadWrite);
    world.admin(&["umount", &text(&dir)]);
    world.admin(&["umount", &text(&ours)]);
}
