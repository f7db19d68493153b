//! Secrets appear nowhere else: uses every endpoint, then searches for each secret that was used, in every encoding, in
//! all output of the server and its commands.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;
use proto::cosi::v1alpha1::{AuthenticationType, DriverCreateBucketRequest, DriverGrantBucketAccessRequest};
use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use proto::csi::v1::{
    ControllerPublishVolumeRequest, NodeStageVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};

use crate::signatures::{Request, Signer, encode};
use crate::support::*;

const ROOT_SECRET: &str = "root/secret+of=the~tour-0123456789";
/// A mistyped secret, which must not be shown either.
const MISTYPED: &str = "mistyped/secret+of=the~tour-987654";
const MOUNT_OPTION: &str = "hunter2-in-a-mount-option";
const SECRET_ENTRY: &str = "hunter2-in-a-secret-of-kubernetes";

/// The secrets to search for, by name.
#[derive(Default)]
struct Secrets(Vec<(String, Vec<u8>)>);

impl Secrets {
    fn add(&mut self, name: &str, secret: impl AsRef<[u8]>) {
        self.0.push((name.to_owned(), secret.as_ref().to_vec()));
    }

    /// Every encoding of every secret.
    fn needles(&self) -> Vec<(String, Vec<u8>)> {
        self.0
            .iter()
            .flat_map(|(name, secret)| forms(secret).map(move |(form, bytes)| (format!("{name}, {form}"), bytes)))
            .collect()
    }
}

fn forms(secret: &[u8]) -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    // Base64 of a longer text that contains the secret: at each of three offsets, without the ends that depend on the
    // neighbouring bytes.
    let within = (0..3).map(|shift| {
        let text = STANDARD_NO_PAD.encode([&vec![0; shift][..], secret].concat());
        let (start, end) = ([0, 2, 3][shift], text.len() - [0, 2, 3][(secret.len() + shift) % 3].min(2));
        text[start..end].to_owned()
    });
    let text = std::str::from_utf8(secret).ok();
    let words =
        text.into_iter().flat_map(|text| [("in a URL", encode(text)), ("escaped", text.escape_default().to_string())]);
    let named = |name| move |form: String| (name, form.into_bytes());
    std::iter::once(("as it is", secret.to_vec()))
        .chain([("hex", hex.clone()), ("HEX", hex.to_uppercase())].map(|(name, form)| (name, form.into_bytes())))
        .chain([STANDARD.encode(secret), URL_SAFE_NO_PAD.encode(secret)].map(named("base64")))
        .chain(within.map(named("within base64")))
        .chain(words.map(|(name, form)| (name, form.into_bytes())))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Fails if `text` contains a secret in any encoding.
#[track_caller]
fn clean(place: &str, text: &[u8], needles: &[(String, Vec<u8>)]) {
    for (name, needle) in needles {
        let found = text.windows(needle.len()).any(|window| window == needle);
        assert!(!found, "{place} holds a secret: {name}");
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry")) {
        match entry.file_type().expect("a kind") {
            kind if kind.is_dir() => files(&entry.path(), found),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// The test's server, and all output so far.
struct SecretsTest {
    server: Server,
    secrets: Secrets,
    said: Vec<(String, String)>,
}

impl SecretsTest {
    fn start() -> Self {
        let options = Options::default().args(["--log-level", "trace", "--volume-listen", "127.0.0.1:0"]);
        let options =
            options.env("AMPHORA_ROOT_ACCESS_KEY_ID", "ROOTKEYID").env("AMPHORA_ROOT_SECRET_ACCESS_KEY", ROOT_SECRET);
        let mut test = Self { server: options.start(), secrets: Secrets::default(), said: Vec::new() };
        test.secrets.add("the root secret", ROOT_SECRET);
        test.secrets.add("a mistyped secret", MISTYPED);
        test.secrets.add("a mount option", MOUNT_OPTION);
        test.secrets.add("an entry of a Secret", SECRET_ENTRY);
        test.master_key("the first master key");
        test
    }

    fn master_key(&mut self, name: &str) {
        self.secrets.add(name, fs::read(self.server.home().data_dir().join("master.key")).expect("read"));
    }

    /// Runs a command and records its output.
    fn command(&mut self, args: &[&str]) -> Outcome {
        let outcome = cli::cli(&self.server, args);
        self.said.push((args.join(" "), format!("{}{}", outcome.stdout, outcome.stderr)));
        outcome
    }

    /// A key of a new account. Only the output that shows the new key may contain it.
    fn account(&mut self, name: &str) -> Credentials {
        self.command(&["account", "create", name]);
        let key = cli::key_of(&cli::json(&self.server, &["key", "create", "--account", name]));
        self.secrets.add(&format!("the secret of {name}"), &key.secret_access_key);
        key
    }

    fn signer(&self, key: &Credentials) -> Signer {
        Signer { key: key.clone(), ..Signer::new(&self.server) }
    }

    /// Sends requests with a key: correct ones, incorrect ones, and a presigned URL.
    fn try_key(&mut self, name: &str, key: &Credentials) {
        let signer = self.signer(key);
        for request in [
            Request::new("PUT", "/toured/k").body("content"),
            Request::new("GET", "/toured/k"),
            Request::new("GET", "/toured").query("list-type=2"),
            Request::new("GET", "/toured/absent"),
            Request::new("PUT", "/toured").query("policy=").body("{not a policy"),
            Request::new("POST", "/toured").query("delete=").body("<not xml"),
            Request::new("GET", "/no-such-bucket/k"),
        ] {
            let wire = signer.sign(&request);
            self.said.push((format!("{name} {}", request.path), wire.send(&signer.host).text));
            let url = signer.presign(&request, Duration::from_secs(600));
            let signature = url.params().into_iter().find(|(name, _)| *name == "X-Amz-Signature").expect("signed").1;
            self.secrets.add(&format!("the signature of a URL of {name}"), signature);
            self.said.push((format!("{name} URL"), url.send(&signer.host).text));
        }
    }

    fn metrics(&self) -> String {
        let address = self.server.ready().word("http").trim_start_matches("http://").to_owned();
        let mut socket = TcpStream::connect(address).expect("it accepts");
        socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").expect("sent");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("read");
        text
    }
}

async fn kubernetes(test: &mut SecretsTest, alice: &Credentials) {
    let mut cosi = ProvisionerClient::new(grpc::channel(&test.server.ready().socket("cosi")).await);
    let create = DriverCreateBucketRequest { name: "claimed".into(), ..Default::default() };
    cosi.driver_create_bucket(create).await.expect("made");
    let grant = DriverGrantBucketAccessRequest {
        bucket_id: "claimed".into(),
        name: "ba-1".into(),
        authentication_type: AuthenticationType::Key.into(),
        parameters: HashMap::new(),
    };
    let granted = cosi.driver_grant_bucket_access(grant.clone()).await.expect("granted").into_inner();
    let given = granted.credentials["s3"].secrets.clone();
    test.secrets.add("a secret of COSI", &given["accessSecretKey"]);
    let refused =
        cosi.driver_grant_bucket_access(DriverGrantBucketAccessRequest { bucket_id: "none".into(), ..grant }).await;
    test.said.push(("COSI".into(), format!("{:?}", refused.expect_err("no such bucket"))));

    let publish_context = ticket(test).await;
    let pair = |id: &str, secret: &str| {
        HashMap::from([("accessKeyId".to_owned(), id.to_owned()), ("secretAccessKey".to_owned(), secret.to_owned())])
    };
    let info = |text: String| HashMap::from([("BucketInfo".to_owned(), text)]);
    let staging = test.server.home().path().join("staged");
    fs::create_dir(&staging).expect("made");
    let staging = staging.to_str().expect("ours").to_owned();
    let mut node = NodeClient::new(grpc::channel(&test.server.ready().socket("csi")).await);
    for (secrets, flags) in [
        (given, vec![]),
        (pair(&alice.access_key_id, &alice.secret_access_key), vec![]),
        (pair(&alice.access_key_id, MISTYPED), vec![]),
        (pair("", SECRET_ENTRY), vec![]),
        (info(format!("{{\"spec\":{{\"secretS3\":\"{SECRET_ENTRY}\"}}}}")), vec![]),
        (info(SECRET_ENTRY.to_owned()), vec![]),
        (HashMap::from([(SECRET_ENTRY.to_owned(), SECRET_ENTRY.to_owned())]), vec![]),
        (pair(&alice.access_key_id, &alice.secret_access_key), vec![format!("password={MOUNT_OPTION}")]),
    ] {
        let mount = MountVolume { mount_flags: flags, ..Default::default() };
        let request = NodeStageVolumeRequest {
            volume_id: "claimed".into(),
            staging_target_path: staging.clone(),
            volume_capability: Some(VolumeCapability {
                access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
                access_type: Some(AccessType::Mount(mount)),
            }),
            secrets,
            publish_context: publish_context.clone(),
            ..Default::default()
        };
        let staged = node.node_stage_volume(request).await;
        test.said.push(("CSI".into(), format!("{staged:?}")));
        // With nothing staged there is nothing to do.
        let unstage = NodeUnstageVolumeRequest { volume_id: "claimed".into(), staging_target_path: staging.clone() };
        drop(node.node_unstage_volume(unstage).await);
    }
}

/// Publishes a volume to a node on another machine; the publish context, whose ticket is a secret.
async fn ticket(test: &mut SecretsTest) -> HashMap<String, String> {
    let mut controller = ControllerClient::new(grpc::channel(&test.server.ready().socket("csi")).await);
    let capability = VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::MultiNodeMultiWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    };
    let publish = ControllerPublishVolumeRequest {
        volume_id: "claimed".into(),
        node_id: "another-machine".into(),
        volume_capability: Some(capability),
        ..Default::default()
    };
    let published = controller.controller_publish_volume(publish.clone()).await.expect("published").into_inner();
    test.secrets.add("a ticket", &published.publish_context["amphora/ticket"]);
    let refused =
        controller.controller_publish_volume(ControllerPublishVolumeRequest { readonly: true, ..publish }).await;
    test.said.push(("CSI".into(), format!("{:?}", refused.expect_err("published in another way"))));
    published.publish_context
}

fn commands(test: &mut SecretsTest, alice: &Credentials) {
    let home = test.server.home().path().to_owned();
    let (good, bad, odd) = (home.join("good"), home.join("bad"), home.join("odd"));
    let text =
        |id: &str, secret: &str| format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = {secret}\n");
    write_private(&good, text(&alice.access_key_id, &alice.secret_access_key));
    write_private(&bad, text(&alice.access_key_id, MISTYPED));
    write_private(&odd, format!("{MISTYPED}\n{}", text("?", MISTYPED)));
    let dir = home.join("mounted");
    fs::create_dir(&dir).expect("made");
    let dir = dir.to_str().expect("ours").to_owned();
    for file in [&good, &bad, &odd] {
        test.command(&["mount", "toured", &dir, "--credentials", file.to_str().expect("ours")]);
        test.command(&["umount", &dir]);
    }
    for args in [
        &["key", "list", "--output", "json"][..],
        &["account", "list", "--output", "json"],
        &["grant", "list"],
        &["bucket", "show", "toured", "--output", "json"],
        &["status", "--output", "json"],
        &["status"],
        &["volume", "list", "--output", "json"],
        &["master-key", "rotate"],
        &["key", "delete", "NOSUCHKEY"],
        &["snapshot", "create", "toured", "toured-frozen"],
        &["mount", "stats"],
    ] {
        test.command(args);
    }
    for file in [good, bad, odd] {
        fs::remove_file(file).expect("removed");
    }
}

#[tokio::test]
async fn secrets_appear_only_in_their_files() {
    let mut test = SecretsTest::start();
    let root = test.server.credentials();
    assert_eq!(root.secret_access_key, ROOT_SECRET);
    let alice = test.account("alice");
    test.command(&["bucket", "create", "toured"]);
    test.command(&["grant", "add", "toured", "--account", "alice", "--mode", "rw"]);
    test.try_key("root", &root);
    test.try_key("alice", &alice);
    let mistaken = Credentials { secret_access_key: MISTYPED.into(), ..alice.clone() };
    test.try_key("a mistaken one", &mistaken);
    kubernetes(&mut test, &alice).await;
    commands(&mut test, &alice);
    test.master_key("the second master key");
    let rotated = cli::key_of(&cli::json(&test.server, &["key", "rotate", "--account", "alice"]));
    test.secrets.add("a rotated secret", &rotated.secret_access_key);
    test.try_key("rotated", &rotated);
    let metrics = test.metrics();
    test.server.restart();
    test.try_key("rotated, after a restart", &rotated);
    test.server.terminate();
    let check = test.server.check_arguments();
    test.command(&check.iter().map(String::as_str).collect::<Vec<_>>());

    let needles = test.secrets.needles();
    let log = test.server.log();
    assert!(
        log.contains("TRACE") && log.contains("NodeStageVolume") && !log.contains("panicked"),
        "the log has every level, and no panic"
    );
    assert!(metrics.contains("amphora_store_commits"), "{metrics}");
    clean("the log", log.as_bytes(), &needles);
    clean("the metrics", metrics.as_bytes(), &needles);
    for (place, text) in &test.said {
        // The answer to an incorrectly signed request contains the string to sign and the incorrect signature, as AWS's
        // does: never the key, nor a correct signature.
        let wrong = text.contains("<SignatureProvided>");
        let needles: Vec<_> =
            needles.iter().filter(|(name, _)| !(wrong && name.starts_with("the signature"))).cloned().collect();
        clean(place, text.as_bytes(), &needles);
    }
    let mut all = Vec::new();
    files(test.server.home().path(), &mut all);
    assert!(all.len() > 5, "{all:?}");
    for path in all {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let secrets = match name {
            // Two files may contain secrets: the root key's file, for users who may read the data folder, and the
            // master key. The log of the start contains how the test started the server, with the root key in the
            // environment.
            "log.start" => continue,
            "root-credentials" => {
                needles.iter().filter(|(name, _)| !name.starts_with("the root secret")).cloned().collect()
            }
            "master.key" => {
                needles.iter().filter(|(name, _)| !name.starts_with("the second master key")).cloned().collect()
            }
            _ => needles.clone(),
        };
        clean(&path.display().to_string(), &fs::read(&path).expect("read"), &secrets);
    }
}

#[test]
fn the_search_finds_each_form() {
    let secret = b"s3cr3t/of+the=test";
    let mut secrets = Secrets::default();
    secrets.add("it", secret);
    let needles = secrets.needles();
    let text = std::str::from_utf8(secret).expect("text");
    let hex: String = secret.iter().map(|byte| format!("{byte:02X}")).collect();
    let mut hiding = vec![text.to_owned(), hex, encode(text)];
    for shift in 0..4 {
        for more in 0..4 {
            hiding.push(STANDARD.encode(format!("{}{text}{}", "x".repeat(shift), "y".repeat(more))));
        }
    }
    for hidden in hiding {
        let found =
            needles.iter().any(|(_, needle)| hidden.as_bytes().windows(needle.len()).any(|window| window == needle));
        assert!(found, "{hidden}");
    }
    clean("an innocent text", b"nothing to see, s3cr3t/of+the=tes", &needles);
}
