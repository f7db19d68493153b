//! A node on another machine than its store: its sessions are those of the store, without a wire in between.

use node_session::{Incarnation, SessionId};
use objstore::volume::{OpenRemote, RemoteSession, Space};

use super::node::{publish, stage};
use super::*;
use crate::credentials::Credentials;
use crate::node::{Recovered, Sessions, Standing};

/// The connection to the store.
pub(super) struct Wire {
    store: Store,
    machine: Arc<Machine>,
    sessions: Mutex<BTreeMap<PathBuf, RemoteSession>>,
    ids: AtomicU64,
    is_cut: AtomicBool,
}

impl Wire {
    pub(super) fn new(store: &Store, machine: &Arc<Machine>) -> Self {
        let (store, machine) = (store.clone(), machine.clone());
        Self { store, machine, sessions: Mutex::default(), ids: AtomicU64::new(1), is_cut: AtomicBool::new(false) }
    }

    fn open(&self, bucket: &BucketName, credentials: &Credentials, read_only: bool) -> objstore::Result<RemoteSession> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(Error::Busy { what: "the store is not reached".into() });
        }
        let denied = || Error::Denied { why: "the key is not valid".into() };
        let account = credentials.key.as_ref().map(|key| {
            let identity = self.store.identify(&key.id)?.filter(|found| found.secret == key.secret);
            identity.map(|found| found.account.name).ok_or_else(denied)
        });
        self.store.open_remote(&OpenRemote {
            id: SessionId(self.ids.fetch_add(1, Ordering::Relaxed).into()),
            incarnation: Incarnation(1),
            node: NODE.into(),
            bucket: bucket.clone(),
            prefix: String::new(),
            read_only,
            ticket: Some(credentials.ticket.reveal().to_owned()),
            account: account.transpose()?,
        })
    }

    /// A session that may write, or else one that may read.
    fn open_widest(&self, bucket: &BucketName, credentials: &Credentials) -> objstore::Result<RemoteSession> {
        match self.open(bucket, credentials, false) {
            Err(Error::Denied { .. }) if credentials.key.is_some() => self.open(bucket, credentials, true),
            opened => opened,
        }
    }
}

impl Sessions for Wire {
    fn is_read_only(&self, volume: &BucketName, credentials: &Credentials) -> objstore::Result<bool> {
        let session = self.open_widest(volume, credentials)?;
        let about = session.shown();
        self.store.end_remote(about.id)?;
        Ok(about.about.read_only)
    }

    fn space(&self, at: &Path) -> objstore::Result<Space> {
        let is_served = self.sessions.lock().contains_key(at);
        let space = Space { total_bytes: 100, used_bytes: 10, free_bytes: 90, inodes: 3 };
        is_served.then_some(space).ok_or_else(|| Error::Busy { what: "no session".into() })
    }

    fn standing(&self, at: &Path) -> Standing {
        match self.machine.serves(at) {
            Some(_) if self.is_cut.load(Ordering::Relaxed) => Standing::Unreached,
            Some(_) => Standing::Served,
            None => Standing::Lost,
        }
    }
}

impl Mounter for Wire {
    fn mount(&self, bucket: &BucketName, at: &Path, options: &MountOptions) -> objstore::Result<()> {
        let credentials = options.credentials.as_ref().expect("a node on another machine has a ticket");
        assert_eq!(credentials.authority.as_deref(), Some(AUTHORITY), "it knows the store by the publication");
        let session = match options.read_only {
            true => self.open(bucket, credentials, true)?,
            false => self.open_widest(bucket, credentials)?,
        };
        let read_only = session.shown().about.read_only;
        Mounter::mount(&*self.machine, bucket, at, &MountOptions { read_only, ..options.clone() })?;
        self.sessions.lock().insert(at.to_owned(), session);
        Ok(())
    }

    fn unmount(&self, at: &Path) -> objstore::Result<()> {
        let session = self.sessions.lock().remove(at);
        if let Some(session) = session.filter(|_| !self.is_cut.load(Ordering::Relaxed)) {
            self.store.end_remote(session.shown().id)?;
        }
        Mounter::unmount(&*self.machine, at)
    }

    fn state(&self, at: &Path) -> objstore::Result<MountState> {
        self.machine.state(at)
    }

    fn is_administrators(&self, at: &Path) -> bool {
        self.machine.is_administrators(at)
    }
}

/// A node on another machine than its store, and the controller beside the store.
pub(super) async fn fixture() -> Fixture {
    start(Nodes::Any).await
}

pub(super) fn node(wire: &Arc<Wire>, machine: &Arc<Machine>, config: &Config) -> Node {
    Node::with(Place::Sessions(wire.clone()), config.clone(), parts(wire.clone(), machine)).unwrap()
}

impl Fixture {
    fn wire(&self) -> &Arc<Wire> {
        self.wire.as_ref().unwrap()
    }

    /// The ticket of a publication to this node.
    async fn ticket(&self, volume: &str) -> String {
        self.attached(volume, NODE, false).await.unwrap()["amphora/ticket"].clone()
    }

    /// Whether a ticket opens a volume for this node.
    async fn opens(&self, volume: &str, ticket: &str) -> bool {
        let (wire, volume) = (self.wire().clone(), name(volume));
        let ticket = crate::credentials::Ticket::parse(ticket).unwrap();
        let open = move || wire.open(&volume, &Credentials { ticket, key: None, authority: None }, false).is_ok();
        tokio::task::spawn_blocking(open).await.unwrap()
    }

    fn sessions(&self) -> usize {
        self.store.remote_sessions().len()
    }

    async fn restart_node(&mut self) -> Recovered {
        self.machine.die();
        self.wire().sessions.lock().clear();
        let node = node(self.wire(), &self.machine, &config(self.dir.path()));
        let recovered = node.recover().await;
        self.node = crate::node::Service::new(node);
        recovered
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_volume_has_one_ticket_until_it_is_unpublished() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let ticket = f.ticket("pvc-1").await;
    assert_eq!(f.ticket("pvc-1").await, ticket, "a repeated call");
    assert!(f.opens("pvc-1", &ticket).await);
    assert_eq!(f.sessions(), 1);
    f.detach("pvc-1").await.unwrap();
    assert_eq!(f.sessions(), 0, "the session ended before the answer");
    assert!(!f.opens("pvc-1", &ticket).await);
    assert_ne!(f.ticket("pvc-1").await, ticket, "another publication");
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_stay_valid_when_the_master_key_is_rotated_while_they_are_used() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let ticket = f.ticket("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.store.rotate_master_key().await.unwrap();
    let next = f.ticket("pvc-1").await;
    assert!(next != ticket && f.opens("pvc-1", &ticket).await && f.opens("pvc-1", &next).await);
    f.stage(stage(&f, "pvc-1")).await.expect("a repeated call with the next ticket");
    assert_eq!(f.machine.devices.load(Ordering::Relaxed), 1, "the mount stays");
    let recorded = std::fs::read_to_string(f.path("node/stage-pvc-1.json")).unwrap();
    assert!(recorded.contains(&next) && !recorded.contains(&ticket), "it is opened with the next one later");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_published_to_every_node_that_can_exist() {
    let f = fixture().await;
    f.create("pvc-1").await;
    for node in ["a/b", "two words", &"n".repeat(129)] {
        assert_eq!(code(f.attached("pvc-1", node, false).await), Code::NotFound, "{node}");
    }
    f.attached("pvc-1", "node-2.example", true).await.unwrap();
    assert_eq!(code(f.attached("pvc-1", NODE, false).await), Code::FailedPrecondition, "a mode for one node");
    f.detach("pvc-1").await.unwrap();
    f.attached("pvc-1", NODE, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_serves_no_other_machine_issues_no_ticket() {
    let f = super::fixture().await;
    f.create("pvc-1").await;
    assert!(f.attached("pvc-1", NODE, false).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_not_made_as_a_volume_needs_a_key_also_from_another_machine() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("alices", None).await;
    let with =
        |secrets: &HashMap<String, String>| NodeStageVolumeRequest { secrets: secrets.clone(), ..stage(&f, "alices") };
    let ticket = f.ticket("alices").await;
    assert!(!f.opens("alices", &ticket).await, "the store refuses, also to a node that asks for no key");
    assert_eq!(code(f.stage(stage(&f, "alices")).await), Code::PermissionDenied);
    assert_eq!(code(f.stage(with(&secrets)).await), Code::PermissionDenied, "without a grant");
    f.secret_of_bob("alices", Some(Mode::Read)).await;
    f.stage(with(&secrets)).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("ro"));
    f.secret_of_bob("alices", Some(Mode::ReadWrite)).await;
    f.unstage("alices").await.unwrap();
    f.stage(with(&secrets)).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("rw"));
    let mut other = secrets.clone();
    other.insert("secretAccessKey".into(), "guess".into());
    assert_eq!(code(f.stage(with(&other)).await), Code::AlreadyExists, "a working mount is not shown to another key");
    f.unstage("alices").await.unwrap();
    assert_eq!(code(f.stage(with(&other)).await), Code::PermissionDenied);
    assert_eq!((f.machine.count(), f.sessions()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_not_published_is_not_opened() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let no_ticket = HashMap::from([("amphora/readonly".to_owned(), "true".to_owned())]);
    let request = NodeStageVolumeRequest { publish_context: no_ticket, ..stage(&f, "pvc-1") };
    assert_eq!(code(f.stage(request).await), Code::FailedPrecondition);
    let of_another = f.attached("pvc-1", "node-2", false).await.unwrap();
    let request = NodeStageVolumeRequest { publish_context: of_another, ..stage(&f, "pvc-1") };
    assert_eq!(code(f.stage(request).await), Code::PermissionDenied);
    assert_eq!((f.machine.count(), std::fs::read_dir(f.path("node")).unwrap().count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_opens_its_volumes_again_by_its_records_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut f = fixture().await;
    let secrets = f.secret_of_bob("pvc-1", None).await;
    f.create("pvc-1").await;
    f.secret_of_bob("pvc-1", Some(Mode::ReadWrite)).await;
    f.stage(NodeStageVolumeRequest { secrets, ..stage(&f, "pvc-1") }).await.unwrap();
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    let mode = std::fs::metadata(f.path("node/stage-pvc-1.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has the ticket and the key");
    assert_eq!(f.restart_node().await, Recovered { stages: 1, targets: 1, ..Default::default() });
    assert_eq!(f.machine.serves(&f.path("a")), Some("rw"));
    f.detach("pvc-1").await.unwrap();
    assert_eq!(f.restart_node().await, Recovered { removed: 2, ..Default::default() }, "it is published no more");
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unmounting_asks_no_store() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    f.wire().is_cut.store(true, Ordering::Relaxed);
    f.unpublish("pvc-1", "a").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
    assert_eq!((f.machine.count(), std::fs::read_dir(f.path("node")).unwrap().count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_condition_of_a_volume_is_that_of_its_session() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    let stats = f.stats("pvc-1", &f.text("staging")).await.unwrap();
    assert!(stats.usage.len() == 2 && !stats.volume_condition.unwrap().abnormal);
    f.wire().is_cut.store(true, Ordering::Relaxed);
    let unreached = f.stats("pvc-1", &f.text("staging")).await.unwrap().volume_condition.unwrap();
    assert!(unreached.abnormal && unreached.message.contains("not reached"), "{unreached:?}");
    f.machine.die();
    let lost = f.stats("pvc-1", &f.text("staging")).await.unwrap();
    assert!(lost.usage.is_empty() && lost.volume_condition.unwrap().message.contains("lost"));
}
