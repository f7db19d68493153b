//! A node on another machine than its store: `amphora node` as a process of its own, which has the volume listener of the
//! server, and sockets. Both run on this machine.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use tests::child;
use tonic::Code;

use super::*;
use crate::support::access::{read, root_client, write};

/// How long a node may take to start, and to notice the end of its session.
const LIMIT: Duration = Duration::from_secs(30);
/// The name of the other machine.
pub(super) const NAME: &str = "another-machine";

/// The process `amphora node`; killed when it is dropped.
pub(super) struct Node {
    process: Option<Child>,
    home: Home,
    server: String,
    /// More arguments.
    args: Vec<String>,
}

impl Node {
    pub(super) fn start(server: String, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut node = Self { process: None, home: Home::new().expect("a folder"), server, args };
        node.launch();
        node
    }

    fn launch(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.home.log()).expect("a log");
        let mut command = Command::new(amphora().expect("built"));
        command.args(["node", "--node-id", NAME, "--no-holder", "--server", &self.server, "--log-level", "trace"]);
        command.args(&self.args).arg("--state-dir").arg(self.home.path().join("state"));
        command.arg("--csi-node-endpoint").arg(format!("unix://{}", text(&self.socket())));
        command.arg("--admin-endpoint").arg(format!("unix://{}", text(&self.home.socket("admin"))));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.process = Some(command.spawn().expect("started"));
        let answers = || std::os::unix::net::UnixStream::connect(self.socket()).ok();
        assert!(wait_until(LIMIT, answers).is_some(), "the node does not start: {}", self.log());
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.home.socket("csi-node")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.log()).unwrap_or_default()
    }

    fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            assert!(child::wait(&mut process, LIMIT).is_some(), "it is still there");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = child::wait(&mut process, LIMIT);
        }
    }
}

/// The store with its controller, and the node.
struct Apart {
    driver: Driver,
    node: Node,
}

impl Apart {
    async fn start() -> Self {
        Self::with(&[], &[]).await
    }

    /// With more arguments of the store and of the node.
    async fn with(store: &[&str], node: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let listen = format!("127.0.0.1:{port}");
        let options =
            Options::default().args(["--csi-node", "false", "--volume-lease", "2s", "--volume-listen", &listen]);
        let node = Node::start(listen, node);
        let options = options.args(store.iter().copied());
        let mut apart = Self { driver: Driver::of(options.start()).await, node };
        apart.reconnect().await;
        apart
    }

    async fn reconnect(&mut self) {
        let channel = grpc::channel(&self.node.socket()).await;
        self.driver.node = NodeClient::new(channel);
    }

    async fn attach(&mut self, volume: &str) -> HashMap<String, String> {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.into(),
            node_id: NAME.into(),
            volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
            ..Default::default()
        };
        let published = self.driver.controller.controller_publish_volume(request).await.expect("published");
        published.into_inner().publish_context
    }

    async fn detach(&mut self, volume: &str) {
        let request = ControllerUnpublishVolumeRequest { volume_id: volume.into(), ..Default::default() };
        self.driver.controller.controller_unpublish_volume(request).await.expect("unpublished");
    }

    async fn stage(
        &mut self,
        volume: &str,
        publish_context: &HashMap<String, String>,
        secrets: &HashMap<String, String>,
    ) -> Result<(), Status> {
        let request = NodeStageVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.driver.staging(volume),
            volume_capability: Some(capability(Mode::MultiNodeMultiWriter)),
            publish_context: publish_context.clone(),
            secrets: secrets.clone(),
            ..Default::default()
        };
        self.driver.node.node_stage_volume(request).await.map(drop)
    }

    /// A volume, attached, staged and published; with its path and its publish context.
    async fn mounted(&mut self, name: &str) -> (PathBuf, HashMap<String, String>) {
        let volume = self.driver.create(name, 64 << 20, None).await;
        let context = self.attach(&volume).await;
        self.stage(&volume, &context, &no_secrets()).await.unwrap_or_else(|why| panic!("{why}: {}", self.node.log()));
        self.driver.publish(&volume, &volume, false, &no_secrets()).await.expect("published");
        (self.driver.path("targets").join(volume), context)
    }

    async fn stats(&mut self, volume: &str) -> NodeGetVolumeStatsResponse {
        let volume_path = self.driver.staging(volume);
        let request = NodeGetVolumeStatsRequest { volume_id: volume.into(), volume_path, ..Default::default() };
        self.driver.node.node_get_volume_stats(request).await.expect("stats").into_inner()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_used_on_another_machine_and_survives_its_node_and_its_store() {
    need!(root_and_fuse());
    let mut apart = Apart::start().await;
    let (path, _) = apart.mounted("pvc-1").await;
    fs::write(path.join("from-mount"), "a").expect("written");
    let s3 = root_client(&apart.driver.server);
    assert_eq!(read(&s3, "pvc-1", "from-mount").await, b"a");
    write(&s3, "pvc-1", "from-s3", b"b").await;
    assert_eq!(fs::read(path.join("from-s3")).expect("there"), b"b");
    let stats = apart.stats("pvc-1").await;
    assert!(stats.usage.len() == 2 && stats.usage[0].total == 64 << 20, "{stats:?}");
    assert!(!stats.volume_condition.expect("a condition").abnormal);

    apart.driver.server.restart();
    fs::write(path.join("after-the-store"), "c").expect("written");
    apart.node.kill9();
    apart.node.launch();
    apart.reconnect().await;
    assert_eq!(fs::read(path.join("after-the-store")).expect("there again"), b"c", "{}", apart.node.log());
    apart.driver.reconnect().await;
    apart.reconnect().await;
    apart.driver.unpublish("pvc-1", "pvc-1").await;
    apart.driver.unstage("pvc-1").await;
    apart.detach("pvc-1").await;
    apart.driver.delete("pvc-1").await;
    assert!(mounts_below(&apart.driver).is_empty(), "{:?}", mounts_below(&apart.driver));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpublished_volume_is_fenced_before_the_answer() {
    need!(root_and_fuse());
    let mut apart = Apart::start().await;
    let (path, context) = apart.mounted("pvc-1").await;
    fs::write(path.join("f"), "before").expect("written");
    apart.detach("pvc-1").await;
    assert!(fs::write(path.join("g"), "after").is_err(), "nothing of the node is done any more");
    let s3 = root_client(&apart.driver.server);
    assert!(s3.head_object().bucket("pvc-1").key("g").send().await.is_err());
    let lost = apart.stats("pvc-1").await;
    assert!(lost.usage.is_empty() && lost.volume_condition.expect("a condition").abnormal);
    apart.driver.unpublish("pvc-1", "pvc-1").await;
    apart.driver.unstage("pvc-1").await;
    let refused = apart.stage("pvc-1", &context, &no_secrets()).await.expect_err("a ticket of the past");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let context = apart.attach("pvc-1").await;
    apart.stage("pvc-1", &context, &no_secrets()).await.expect("attached again");
    apart.driver.unstage("pvc-1").await;
    assert!(mounts_below(&apart.driver).is_empty(), "{:?}", mounts_below(&apart.driver));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_narrows_the_ticket_and_neither_appears_in_a_log() {
    need!(root_and_fuse());
    let mut apart = Apart::start().await;
    drop(cli::cli(&apart.driver.server, &["bucket", "create", "photos"]).ok());
    drop(cli::cli(&apart.driver.server, &["account", "create", "anna"]).ok());
    let key = cli::key_of(&cli::json(&apart.driver.server, &["key", "create", "--account", "anna"]));
    let secrets = HashMap::from([
        ("accessKeyId".to_owned(), key.access_key_id.clone()),
        ("secretAccessKey".to_owned(), key.secret_access_key.clone()),
    ]);
    let context = apart.attach("photos").await;
    let refused = apart.stage("photos", &context, &no_secrets()).await.expect_err("without a key");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let refused = apart.stage("photos", &context, &secrets).await.expect_err("without a grant");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    drop(cli::cli(&apart.driver.server, &["grant", "add", "photos", "--account", "anna", "--mode", "ro"]).ok());
    let mut wrong = secrets.clone();
    wrong.insert("secretAccessKey".to_owned(), "guess".to_owned());
    let refused = apart.stage("photos", &context, &wrong).await.expect_err("a wrong secret");
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    apart.stage("photos", &context, &secrets).await.unwrap_or_else(|why| panic!("{why}: {}", apart.node.log()));
    apart.driver.publish("photos", "photos", false, &secrets).await.expect("published");
    let path = apart.driver.path("targets").join("photos");
    assert_eq!(errno(fs::write(path.join("f"), "no")), Some(Errno::ROFS), "the grant is read-only");
    apart.driver.unpublish("photos", "photos").await;
    apart.driver.unstage("photos").await;
    for log in [apart.node.log(), apart.driver.server.log()] {
        assert!(log.len() > 100 && !log.contains(&context["amphora/ticket"]), "the ticket is in a log");
        assert!(!log.contains(&key.secret_access_key), "the secret of the key is in a log");
    }
    assert!(mounts_below(&apart.driver).is_empty(), "{:?}", mounts_below(&apart.driver));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_node_service_serves_the_controller_alone() {
    let apart =
        Driver::of(Options::default().args(["--csi-node", "false", "--volume-listen", "127.0.0.1:0"]).start()).await;
    let Driver { mut node, .. } = apart;
    let answer = node.node_get_info(NodeGetInfoRequest {}).await;
    grpc::refused("NodeGetInfo", answer, Code::Unimplemented, &[]);
}

/// csi-sanity with block volumes, with the controller beside the store and the node elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes_for_block_volumes_with_the_node_elsewhere() {
    need!(super::block::devices());
    let apart = Apart::start().await;
    let node = format!("unix://{}", text(&apart.node.socket()));
    let mut more = vec!["--ginkgo.skip", "should fail when the node does not exist"];
    more.extend(super::sanity::BLOCK);
    need!(super::sanity::pass(&apart.driver.server, Some(&node), &more));
    assert_eq!(super::block::loops_below(&apart.driver), Vec::<String>::new());
}

/// csi-sanity with the controller beside the store and the node elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes_with_the_node_elsewhere() {
    let apart = Apart::start().await;
    let more = ["--ginkgo.skip", "should fail when the node does not exist"];
    need!(super::sanity::pass(&apart.driver.server, Some(&format!("unix://{}", text(&apart.node.socket()))), &more));
}

/// A ticket that was stolen from another node opens nothing without that node's certificate.
#[tokio::test]
async fn a_ticket_opens_a_volume_only_with_a_certificate_of_its_node() {
    need!(root_and_fuse());
    let folder = Home::new().expect("a folder");
    let authority = need!(tests::tls::Certificate::new(folder.path()));
    let [own, other] = [NAME, "some-other-node"].map(|name| authority.node(name).expect("a certificate"));
    let shown = |of: &tests::tls::Certificate| {
        for (from, to) in [(&of.certificate, "shown.crt"), (&of.key, "shown.key")] {
            fs::copy(from, folder.path().join(to)).expect("copied");
        }
    };
    let [cert, key] = ["shown.crt", "shown.key"].map(|name| text(&folder.path().join(name)));
    shown(&other);
    let authority = text(&authority.authority);
    let mut apart = Apart::with(&["--volume-client-ca", &authority], &["--cert", &cert, "--key", &key]).await;
    let volume = apart.driver.create("asked", 64 << 20, None).await;
    let context = apart.attach(&volume).await;
    let refused = apart.stage(&volume, &context, &no_secrets()).await.expect_err("another node's certificate");
    assert!(refused.message().contains("some-other-node") && refused.message().contains(NAME), "{refused}");
    // Renewed files are used without a restart.
    shown(&own);
    apart.stage(&volume, &context, &no_secrets()).await.unwrap_or_else(|why| panic!("{why}: {}", apart.node.log()));
    apart.driver.publish(&volume, &volume, false, &no_secrets()).await.expect("published");
    let path = apart.driver.path("targets").join(&volume);
    fs::write(path.join("f"), "content").expect("written");
    assert_eq!(fs::read(path.join("f")).expect("read"), b"content");
    apart.driver.unpublish(&volume, &volume).await;
    apart.driver.unstage(&volume).await;
}
