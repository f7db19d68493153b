//! The guarantees of the COSI services that the sidecar relies on, tested on a real store.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use objstore::clock::{Scripted, SystemClock};
use objstore::name::BucketName;
use objstore::store::{CreateBucket, Creator, Mode, Options, Publication, RootAttributes, Versioning};
use objstore::volume::VolumeOptions;
use proto::cosi::v1alpha1::identity_server::Identity;
use proto::cosi::v1alpha1::provisioner_server::Provisioner;
use proto::cosi::v1alpha1::{
    AuthenticationType, DriverCreateBucketRequest, DriverDeleteBucketRequest, DriverGetInfoRequest,
    DriverGrantBucketAccessRequest, DriverGrantBucketAccessResponse, DriverRevokeBucketAccessRequest, protocol,
};
use tonic::{Code, Request, Status};

use super::{identity, provisioner};
use crate::{Config, Driver, OWNER};

struct Fixture {
    _dir: tempfile::TempDir,
    store: objstore::Store,
    service: provisioner::Service,
}

async fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(dir.path().join("data"));
    options.clock = std::sync::Arc::new(SystemClock);
    options.random = std::sync::Arc::new(Scripted::new(7));
    // Opening waits for the disk, which async workers must not do.
    let store = tokio::task::spawn_blocking(|| objstore::open(options).unwrap()).await.unwrap();
    let config = Config {
        driver_name: "cosi.amphora.dev".into(),
        s3_endpoint_url: "http://s3.example:9000".into(),
        region: "us-east-1".into(),
        issuer: Some("https://kubernetes.default.svc".into()),
        answer_delay: Duration::ZERO,
    };
    let driver = Driver::new(store.clone(), config);
    Fixture { _dir: dir, store, service: provisioner::Service { driver } }
}

fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn name(name: &str) -> BucketName {
    name.parse().unwrap()
}

impl Fixture {
    async fn create(&self, name: &str, parameters: &[(&str, &str)]) -> Result<String, Status> {
        let request = DriverCreateBucketRequest { name: name.into(), parameters: map(parameters) };
        let answer = self.service.driver_create_bucket(Request::new(request)).await?.into_inner();
        let Some(protocol::Type::S3(s3)) = answer.bucket_info.and_then(|info| info.r#type) else {
            panic!("the answer names no S3 protocol");
        };
        assert_eq!(s3.region, "us-east-1");
        Ok(answer.bucket_id)
    }

    async fn delete(&self, bucket_id: &str) -> Result<(), Status> {
        let request = DriverDeleteBucketRequest { bucket_id: bucket_id.into(), ..Default::default() };
        self.service.driver_delete_bucket(Request::new(request)).await.map(|_| ())
    }

    async fn grant(
        &self,
        bucket_id: &str,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<DriverGrantBucketAccessResponse, Status> {
        self.grant_by(AuthenticationType::Key, bucket_id, name, parameters).await
    }

    async fn grant_role(
        &self,
        bucket_id: &str,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<DriverGrantBucketAccessResponse, Status> {
        self.grant_by(AuthenticationType::Iam, bucket_id, name, parameters).await
    }

    async fn grant_by(
        &self,
        authentication_type: AuthenticationType,
        bucket_id: &str,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<DriverGrantBucketAccessResponse, Status> {
        let request = DriverGrantBucketAccessRequest {
            bucket_id: bucket_id.into(),
            name: name.into(),
            authentication_type: authentication_type.into(),
            parameters: map(parameters),
        };
        Ok(self.service.driver_grant_bucket_access(Request::new(request)).await?.into_inner())
    }

    async fn revoke(&self, bucket_id: &str, account_id: &str) -> Result<(), Status> {
        let request = DriverRevokeBucketAccessRequest {
            bucket_id: bucket_id.into(),
            account_id: account_id.into(),
            ..Default::default()
        };
        self.service.driver_revoke_bucket_access(Request::new(request)).await.map(|_| ())
    }

    /// Whether the key in a grant's answer gives access to the bucket.
    fn opens(&self, grant: &DriverGrantBucketAccessResponse, bucket: &str) -> Option<Mode> {
        let identity = self.store.identify(&grant.credentials["s3"].secrets["accessKeyID"]).unwrap()?;
        assert_eq!(identity.secret.reveal(), grant.credentials["s3"].secrets["accessSecretKey"]);
        self.store.access(&identity.account, &name(bucket)).unwrap()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}

#[tokio::test]
async fn the_driver_says_its_name() {
    let service = identity::Service { name: "cosi.amphora.dev".into() };
    let answer = service.driver_get_info(Request::new(DriverGetInfoRequest {})).await.unwrap();
    assert_eq!(answer.into_inner().name, "cosi.amphora.dev");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bucket_has_the_requested_name_and_parameters() {
    let f = fixture().await;
    assert_eq!(f.create("bc-1", &[("quota", "1Gi")]).await.unwrap(), "bc-1");
    let bucket = f.store.bucket(&name("bc-1")).unwrap();
    assert_eq!((bucket.owner.as_str(), bucket.quota_bytes), (OWNER, Some(1 << 30)));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bucket_asked_for_three_times_at_once_is_made_once() {
    let f = fixture().await;
    let parameters = [("quota", "1Gi")];
    let (a, b, c) =
        tokio::join!(f.create("bc-1", &parameters), f.create("bc-1", &parameters), f.create("bc-1", &parameters));
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()], ["bc-1", "bc-1", "bc-1"]);
    assert_eq!(f.store.buckets(None, 10).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_asked_for_differently_already_exists() {
    let f = fixture().await;
    f.create("bc-1", &[("quota", "1Gi")]).await.unwrap();
    assert_eq!(code(f.create("bc-1", &[("quota", "2Gi")]).await), Code::AlreadyExists);
    assert_eq!(code(f.create("bc-1", &[]).await), Code::AlreadyExists);
    f.create("bc-1", &[("quota", "1024Mi")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_has_the_first_settings_of_its_class_and_keeps_later_ones() {
    let f = fixture().await;
    let class =
        [("anonymousAccess", "read"), ("expireDays", "30"), ("objectLock", "enabled"), ("versioning", "enabled")];
    f.create("bc-1", &class).await.unwrap();
    let settings = f.store.settings(&name("bc-1")).unwrap().settings;
    assert!(settings.policy.as_ref().is_some_and(|policy| policy.contains("arn:aws:s3:::bc-1/*")));
    assert!(settings.object_lock.is_some() && settings.lifecycle[0].expire_days == Some(30));
    f.store
        .change_settings(&name("bc-1"), |settings| {
            settings.policy = None;
            Ok(())
        })
        .await
        .unwrap();
    f.create("bc-1", &class).await.unwrap();
    assert_eq!(f.store.settings(&name("bc-1")).unwrap().settings.policy, None, "a repeated request changes nothing");
    assert_eq!(code(f.create("bc-1", &class[1..]).await), Code::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_whose_quota_was_changed_is_still_the_one_asked_for() {
    let f = fixture().await;
    f.create("bc-1", &[("quota", "1Gi")]).await.unwrap();
    let set = objstore::store::SetBucket { quota_bytes: Some(Some(5 << 30)), ..Default::default() };
    f.store.set_bucket(&name("bc-1"), set).await.unwrap();
    f.create("bc-1", &[("quota", "1Gi")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_for_buckets_are_refused_by_name() {
    let f = fixture().await;
    for (bucket, parameters, named) in [
        ("", &[][..], "name"),
        ("UPPER", &[], "UPPER"),
        ("bc-1", &[("qouta", "1")], "qouta"),
        ("bc-1", &[("quota", "many")], "many"),
        ("bc-1", &[("versioning", "on")], "on"),
        ("bc-1", &[("anonymousAccess", "full")], "full"),
        ("bc-1", &[("objectLock", "enabled")], "versioning"),
    ] {
        let status = f.create(bucket, parameters).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(named), "{status}");
    }
    assert!(f.store.buckets(None, 10).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_grant_answers_the_same_key() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let first = f.grant("bc-1", "ba-1", &[]).await.unwrap();
    assert_eq!(f.grant("bc-1", "ba-1", &[]).await.unwrap(), first);
    let secrets = &first.credentials["s3"].secrets;
    assert_eq!(secrets["endpoint"], "http://s3.example:9000");
    assert_eq!(secrets["region"], "us-east-1");
    assert_eq!(first.credentials.len(), 1, "the sidecar takes exactly one protocol");
    assert_eq!(f.opens(&first, "bc-1"), Some(Mode::ReadWrite));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_of_the_last_grant_counts() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let first = f.grant("bc-1", "ba-1", &[("mode", "ro")]).await.unwrap();
    assert_eq!(f.opens(&first, "bc-1"), Some(Mode::Read));
    let second = f.grant("bc-1", "ba-1", &[("mode", "wo")]).await.unwrap();
    assert_eq!(second, first);
    assert_eq!(f.opens(&second, "bc-1"), Some(Mode::Write));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_for_access_are_refused() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.create("bc-2", &[]).await.unwrap();
    assert_eq!(code(f.grant("", "ba-1", &[]).await), Code::InvalidArgument);
    assert_eq!(code(f.grant("bc-1", "", &[]).await), Code::InvalidArgument);
    assert_eq!(code(f.grant("absent", "ba-1", &[]).await), Code::NotFound);
    assert_eq!(code(f.grant("bc-1", "ba-1", &[("mode", "owner")]).await), Code::InvalidArgument);
    assert_eq!(code(f.grant("bc-1", "ba-1", &[("user", "me")]).await), Code::InvalidArgument);
    assert_eq!(code(f.grant_role("bc-1", "ba-1", &[]).await), Code::InvalidArgument);
    assert_eq!(code(f.grant("bc-1", "ba-1", &[("serviceAccountName", "web")]).await), Code::InvalidArgument);
    assert!(f.store.grants(Some(&name("bc-1")), None).unwrap().is_empty());
    f.grant("bc-1", "ba-1", &[]).await.unwrap();
    assert_eq!(code(f.grant("bc-2", "ba-1", &[]).await), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn access_by_iam_is_a_role_without_a_key() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let web = [("serviceAccountNamespace", "shop"), ("serviceAccountName", "web"), ("mode", "ro")];
    let first = f.grant_role("bc-1", "ba-1", &web).await.unwrap();
    assert_eq!(f.grant_role("bc-1", "ba-1", &web).await.unwrap(), first);
    let secrets = &first.credentials["s3"].secrets;
    assert_eq!(secrets["roleArn"], "arn:aws:iam::cosi-ba-1:role/workload");
    assert!(!secrets.contains_key("accessKeyID") && !secrets.contains_key("accessSecretKey"));
    assert_eq!((first.credentials.len(), secrets["endpoint"].as_str()), (1, "http://s3.example:9000"));
    let role = f.store.role(&first.account_id, "workload").unwrap().unwrap();
    assert_eq!(role.identities[0].subject, "system:serviceaccount:shop:web");
    let account = f.store.account(&first.account_id).unwrap();
    assert_eq!(f.store.access(&account, &name("bc-1")).unwrap(), Some(Mode::Read));
    let status = f.grant_role("bc-1", "ba-1", &web[..2]).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "never ALREADY_EXISTS: {status}");
    assert_eq!(code(f.grant("bc-1", "ba-1", &[]).await), Code::FailedPrecondition);
    f.revoke("bc-1", &first.account_id).await.unwrap();
    assert!(f.store.role(&first.account_id, "workload").unwrap().is_none());
    f.revoke("bc-1", &first.account_id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_opens_nothing() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let grant = f.grant("bc-1", "ba-1", &[]).await.unwrap();
    f.revoke("bc-1", &grant.account_id).await.unwrap();
    assert_eq!(f.opens(&grant, "bc-1"), None);
    f.revoke("bc-1", &grant.account_id).await.unwrap();
    f.revoke("absent", &grant.account_id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_for_another_bucket_changes_nothing() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.create("bc-2", &[]).await.unwrap();
    let grant = f.grant("bc-1", "ba-1", &[]).await.unwrap();
    f.revoke("bc-2", &grant.account_id).await.unwrap();
    assert_eq!(f.opens(&grant, "bc-1"), Some(Mode::ReadWrite));
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_others_are_never_revoked() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.store.create_account("alice", false).await.unwrap();
    for account in ["alice", "root", OWNER] {
        assert_eq!(code(f.revoke("bc-1", account).await), Code::InvalidArgument);
    }
    assert!(f.store.account("alice").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_bucket_kills_its_keys_and_is_repeatable() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let grant = f.grant("bc-1", "ba-1", &[]).await.unwrap();
    f.delete("bc-1").await.unwrap();
    assert!(f.store.identify(&grant.credentials["s3"].secrets["accessKeyID"]).unwrap().is_none());
    f.delete("bc-1").await.unwrap();
    f.delete("Not a name").await.unwrap();
    f.revoke("bc-1", &grant.account_id).await.unwrap();
    assert_eq!(code(f.delete("").await), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_bucket_is_not_deleted() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let publication = Publication {
        bucket: name("bc-1"),
        node: "n1".into(),
        read_only: false,
        capability: "mount".into(),
        ticket_suffices: true,
        fenced_by: None,
    };
    f.store.publish(publication).await.unwrap();
    let status = f.delete("bc-1").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("n1"), "{status}");
    assert!(f.store.bucket(&name("bc-1")).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_amphora_mount_shows_is_not_deleted() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let grant = f.grant("bc-1", "ba-1", &[]).await.unwrap();
    let store = f.store.clone();
    let open = move || store.open_volume(&name("bc-1"), VolumeOptions::default()).unwrap();
    let mount = tokio::task::spawn_blocking(open).await.unwrap();
    let status = f.delete("bc-1").await.unwrap_err();
    assert!(status.code() == Code::FailedPrecondition && status.message().contains("mounted"), "{status}");
    assert_eq!(f.opens(&grant, "bc-1"), Some(Mode::ReadWrite), "a refused deletion takes no access away");
    tokio::task::spawn_blocking(move || drop(mount)).await.unwrap();
    f.delete("bc-1").await.unwrap();
}

impl Fixture {
    /// A bucket that the driver did not create.
    async fn foreign(&self, bucket: &str, owner: &str, attributes: &[(&str, &str)]) {
        self.store.create_account_as(owner, false, Creator::Csi).await.unwrap();
        let request = CreateBucket {
            name: name(bucket),
            owner: owner.into(),
            quota_bytes: None,
            versioning: Versioning::Disabled,
            source: None,
            attributes: map(attributes).into_iter().collect::<BTreeMap<_, _>>(),
            root: RootAttributes::default(),
        };
        self.store.create_bucket(request).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_buckets_made_here_are_deleted() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.foreign("by-hand", "alice", &[]).await;
    f.foreign("by-hand-for-cosi", OWNER, &[]).await;
    f.foreign("of-another-driver", OWNER, &[("provisioner", "other.example")]).await;
    f.foreign("pvc-1", "csi", &[("provisioner", "csi.amphora.dev")]).await;
    let copied = [("provisioner", "cosi.amphora.dev"), ("cosi.name", "bc-1"), ("cosi.versioning", "disabled")];
    f.foreign("restored-copy", OWNER, &copied).await;
    f.foreign("forged", "alice", &[("provisioner", "cosi.amphora.dev")]).await;
    f.store.create_snapshot(&name("bc-1"), &name("frozen")).await.unwrap();
    for bucket in ["by-hand", "by-hand-for-cosi", "of-another-driver", "pvc-1", "restored-copy", "forged", "frozen"] {
        let grant = match bucket {
            "frozen" => None,
            bucket => Some(f.grant(bucket, &format!("ba-{bucket}"), &[]).await.unwrap()),
        };
        let status = f.delete(bucket).await.unwrap_err();
        assert!(status.code() == Code::FailedPrecondition && status.message().contains(bucket), "{status}");
        assert!(f.store.bucket(&name(bucket)).is_ok());
        // Access to any bucket can be granted and revoked.
        let Some(grant) = grant else { continue };
        assert_eq!(f.opens(&grant, bucket), Some(Mode::ReadWrite));
        f.revoke(bucket, &grant.account_id).await.unwrap();
        assert_eq!(f.opens(&grant, bucket), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_that_only_look_like_those_of_accesses_are_left_alone() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let uid = "ba-0a1b2c3d-1111-2222-3333-444455556666";
    for access in ["mine", uid] {
        let account = format!("cosi-{access}");
        f.store.create_account(&account, false).await.unwrap();
        f.store.add_grant(&name("bc-1"), &account, Mode::Read).await.unwrap();
        assert_eq!(code(f.grant("bc-1", access, &[]).await), Code::FailedPrecondition, "its key is not handed out");
        assert!(f.store.keys(Some(&account)).unwrap().is_empty());
        assert_eq!(code(f.revoke("bc-1", &account).await), Code::FailedPrecondition);
    }
    f.delete("bc-1").await.unwrap();
    for access in ["mine", uid] {
        assert!(f.store.account(&format!("cosi-{access}")).is_ok(), "{access}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_opens_another_bucket_outlives_this_one() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.create("bc-2", &[]).await.unwrap();
    let grant = f.grant("bc-1", "ba-1", &[]).await.unwrap();
    f.store.add_grant(&name("bc-2"), &grant.account_id, Mode::Read).await.unwrap();
    f.delete("bc-2").await.unwrap();
    assert_eq!(f.opens(&grant, "bc-1"), Some(Mode::ReadWrite));
    f.delete("bc-1").await.unwrap();
    assert!(f.store.account(&grant.account_id).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_and_buckets_of_older_builds_are_still_taken_back() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    for number in [1, 2] {
        let account = format!("cosi-ba-0a1b2c3d-1111-2222-3333-44445555666{number}");
        f.store.create_account_as(&account, false, Creator::Unrecorded).await.unwrap();
        f.store.add_grant(&name("bc-1"), &account, Mode::ReadWrite).await.unwrap();
    }
    f.revoke("bc-1", "cosi-ba-0a1b2c3d-1111-2222-3333-444455556661").await.unwrap();
    assert!(f.store.account("cosi-ba-0a1b2c3d-1111-2222-3333-444455556661").is_err());
    f.delete("bc-1").await.unwrap();
    assert!(f.store.account("cosi-ba-0a1b2c3d-1111-2222-3333-444455556662").is_err());
}
