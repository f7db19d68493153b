//! Paths: no key, name, symbolic link or id leads out of the data folder, a bucket or a target.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::csi::v1::*;
use tonic::Code;

use crate::signatures::{Request, Signer, encode};
use crate::support::*;

/// Keys that would lead elsewhere if they were used as paths.
fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "../x",
        "../../etc/x",
        "a/../../b",
        "a/..",
        "..",
        ".",
        "./x",
        "a/./b",
        "/etc/x",
        "//x",
        "a//b",
        "a/",
        "~/x",
        "C:\\x",
        "..\\x",
        "%2e%2e/x",
        "..%2fx",
        "a\nb",
        "\u{202e}x",
        "master.key",
        "../master.key",
        "../../data/master.key",
        "x/../../root-credentials",
    ]
    .map(str::to_owned)
    .to_vec();
    keys.extend(["n".repeat(1024), format!("{}/x", "d".repeat(300)), "../".repeat(300), "a/".repeat(500)]);
    keys
}

/// Everything in a folder except the server's own files: names, sizes and contents.
fn around(server: &Server) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    walk(server.home().path(), server, &mut found);
    found
}

fn walk(dir: &Path, server: &Server, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry")) {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if path == server.home().data_dir() || path == server.home().log() || path.ends_with("mounted") {
            continue;
        }
        if kind.is_dir() {
            found.insert(path.display().to_string(), Vec::new());
            walk(&path, server, found);
        } else if kind.is_file() {
            found.insert(path.display().to_string(), fs::read(&path).expect("read"));
        } else if kind.is_symlink() {
            found.insert(path.display().to_string(), b"a link".to_vec());
        }
    }
}

fn request(method: &'static str, bucket: &str, key: &str) -> Request {
    let path: Vec<String> = key.split('/').map(encode).collect();
    Request::new(method, format!("/{bucket}/{}", path.join("/")))
}

#[test]
fn keys_are_never_paths_on_the_server() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    let send = |request: &Request| signer.sign(request).send(&signer.host);
    let (before, top) = (around(&server), listing(&server.home().data_dir()));
    for key in keys() {
        let put = send(&request("PUT", "vessel", &key).body(format!("content of {}", key.len())));
        // A key that ends in a slash is a folder, which has no content.
        if put.status != 200 {
            assert!(key.ends_with('/') && put.status == 400 || put.status == 409, "{key:?}: {put}");
            continue;
        }
        let got = send(&request("GET", "vessel", &key));
        assert!(got.text.ends_with(&format!("content of {}", key.len())), "{key:?}: {got}");
        assert_eq!(send(&request("DELETE", "vessel", &key)).status, 204, "{key:?}");
        assert_eq!(send(&request("GET", "vessel", &key)).status, 404, "{key:?}");
    }
    for bad in ["a\0b", "\0", &"x".repeat(1025)] {
        assert_eq!(send(&request("PUT", "vessel", bad).body("x")).status, 400, "{bad:?}");
    }
    assert_eq!(send(&Request::new("PUT", "/vessel/%ff%fe").body("x")).status, 400, "keys are UTF-8");
    assert_eq!((around(&server), listing(&server.home().data_dir())), (before, top));
}

fn listing(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn names_of_buckets_and_snapshots_cannot_be_paths() {
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    let (before, top) = (around(&server), listing(&server.home().data_dir()));
    for name in ["../x", "..", ".", "a/b", "/etc", "a..b", "x\ny", "-abc", "ab", "content", "meta"] {
        let made = cli::cli(&server, &["bucket", "create", "--", name]);
        let taken = cli::cli(&server, &["snapshot", "create", "vessel", "--", name]);
        let plain = ["content", "meta"].contains(&name);
        assert_eq!(made.status.success(), plain, "{name:?}: {made}");
        assert!(!taken.status.success(), "{name:?}: {taken}");
        if !plain {
            let answer = signer.sign(&Request::new("PUT", format!("/{}", encode(name)))).send(&signer.host);
            assert!([400, 403, 404, 405].contains(&answer.status), "{name:?}: {answer}");
        }
    }
    assert_eq!((around(&server), listing(&server.home().data_dir())), (before, top));
}

#[test]
fn s3_follows_no_symbolic_link() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let outside = server.home().path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("file"), "outside").expect("written");
    let mount = Mounted::new(&server, "vessel", "mounted");
    symlink(outside.join("file"), mount.path().join("to-file")).expect("linked");
    symlink(&outside, mount.path().join("to-dir")).expect("linked");
    symlink("/etc/hostname", mount.path().join("to-etc")).expect("linked");
    symlink("../..", mount.path().join("up")).expect("linked");
    fs::write(mount.path().join("plain"), "inside").expect("written");
    let signer = Signer::new(&server);
    let send = |request: &Request| signer.sign(request).send(&signer.host);
    let before = around(&server);
    let listed = send(&Request::new("GET", "/vessel").query("list-type=2")).text;
    for key in ["to-file", "to-dir", "to-dir/file", "to-etc", "up", "up/etc/hostname"] {
        assert!(!listed.contains(&format!("<Key>{key}</Key>")), "{key} is listed");
        for (method, query) in [("GET", ""), ("GET", "tagging="), ("GET", "attributes=")] {
            let asked = request(method, "vessel", key).query(query).header("x-amz-object-attributes", "ETag");
            let answer = send(&asked);
            assert_eq!(answer.status, 404, "{method} {key}?{query}: {answer}");
        }
        let copy = request("PUT", "vessel", "copy").header("x-amz-copy-source", format!("/vessel/{key}"));
        assert_eq!(send(&copy).status, 404, "{key} is copied");
    }
    // A put replaces a link; nothing is written through one.
    for key in ["to-file", "to-dir/new", "up/new"] {
        let put = send(&request("PUT", "vessel", key).body("put"));
        assert!([200, 400, 409].contains(&put.status), "{key}: {put}");
    }
    for key in ["to-etc", "to-dir/file", "up/plain"] {
        let deleted = send(&request("DELETE", "vessel", key));
        assert!([204, 400, 409].contains(&deleted.status), "{key}: {deleted}");
    }
    assert_eq!(around(&server), before, "nothing outside was touched");
    assert_eq!(fs::read(mount.path().join("plain")).expect("it is there"), b"inside");
    mount.unmount(&server);
}

fn capability() -> Option<VolumeCapability> {
    Some(VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    })
}

#[tokio::test]
async fn ids_and_target_paths_of_csi_are_validated() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "vessel", &[]);
    let alice = cli::account(&server, "alice");
    cli::json(&server, &["grant", "add", "vessel", "--account", "alice", "--mode", "rw"]);
    let secrets = HashMap::from([
        ("accessKeyId".to_owned(), alice.access_key_id),
        ("secretAccessKey".to_owned(), alice.secret_access_key),
    ]);
    let home = server.home().path().to_owned();
    let text = |name: &str| format!("{}/{name}", home.display());
    for dir in ["victim", "staged", "pods"] {
        fs::create_dir(home.join(dir)).expect("made");
    }
    fs::write(home.join("victim/file"), "kept").expect("written");
    symlink(home.join("victim"), home.join("link")).expect("linked");
    fs::write(home.join("plain"), "kept").expect("written");
    let channel = grpc::channel(&server.ready().socket("csi")).await;
    let (mut node, mut controller) = (NodeClient::new(channel.clone()), ControllerClient::new(channel));
    let stage = |volume: &str, path: String| NodeStageVolumeRequest {
        volume_id: volume.into(),
        staging_target_path: path,
        volume_capability: capability(),
        secrets: secrets.clone(),
        ..Default::default()
    };
    let before = around(&server);
    for volume in [
        "../vessel",
        "vessel/../vessel",
        "/vessel",
        "..",
        ".",
        "a/b",
        "vessel\n",
        "VESSEL",
        "vessel%2f",
        &"v".repeat(300),
    ] {
        let answer = node.node_stage_volume(stage(volume, text("staged"))).await;
        assert!(matches!(answer.expect_err(volume).code(), Code::NotFound | Code::InvalidArgument), "{volume:?}");
        let delete = DeleteVolumeRequest { volume_id: volume.into(), ..Default::default() };
        // A volume id that cannot exist counts as deleted; nothing is touched.
        drop(controller.delete_volume(delete).await);
        let publish = ControllerPublishVolumeRequest {
            volume_id: "vessel".into(),
            node_id: volume.into(),
            volume_capability: capability(),
            ..Default::default()
        };
        drop(controller.controller_publish_volume(publish).await);
    }
    for path in ["staged", "./staged", "../staged", "", "/"] {
        let answer = node.node_stage_volume(stage("vessel", path.to_owned())).await;
        assert_eq!(answer.expect_err(path).code(), Code::InvalidArgument, "{path:?}");
    }
    for path in ["pods/../staged", "link", "plain", "absent", "absent/dir", "staged\0x"] {
        let answer = node.node_stage_volume(stage("vessel", text(path))).await;
        let code = answer.expect_err(path).code();
        assert!(matches!(code, Code::InvalidArgument | Code::FailedPrecondition), "{path:?}: {code:?}");
    }
    node.node_stage_volume(stage("vessel", text("staged"))).await.expect("staged");
    for path in ["pods/../victim", "link", "plain", "absent/dir", "pods/../../etc"] {
        let publish = NodePublishVolumeRequest {
            volume_id: "vessel".into(),
            staging_target_path: text("staged"),
            target_path: text(path),
            volume_capability: capability(),
            ..Default::default()
        };
        let code = node.node_publish_volume(publish).await.expect_err(path).code();
        assert!(matches!(code, Code::InvalidArgument | Code::FailedPrecondition), "{path:?}: {code:?}");
    }
    for path in ["victim", "link", "plain", "link/file"] {
        let request = NodeUnpublishVolumeRequest { volume_id: "vessel".into(), target_path: text(path) };
        // Either refused or without effect: these resources are not the driver's, and stay.
        drop(node.node_unpublish_volume(request).await);
    }
    let unstage = NodeUnstageVolumeRequest { volume_id: "vessel".into(), staging_target_path: text("staged") };
    node.node_unstage_volume(unstage).await.expect("unstaged");
    assert_eq!(around(&server), before, "only the volume's own files changed");
}
