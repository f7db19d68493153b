//! The guarantees of COSI v1alpha2 that the sidecar relies on, tested on a real store.

use std::collections::HashMap;
use std::time::Duration;

use objstore::clock::{Scripted, SystemClock};
use objstore::name::BucketName;
use objstore::store::{CreateBucket, Mode, Options, RootAttributes, Versioning};
use proto::cosi::v1alpha2::identity_server::Identity;
use proto::cosi::v1alpha2::provisioner_server::Provisioner;
use proto::cosi::v1alpha2::*;
use tonic::{Code, Request, Status};

use super::{identity, provisioner};
use crate::{Config, Driver};

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
        // Answers of this version never wait.
        answer_delay: Duration::from_secs(3600),
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

fn s3() -> ObjectProtocol {
    ObjectProtocol { r#type: object_protocol::Type::S3.into() }
}

fn key() -> Option<AuthenticationType> {
    Some(AuthenticationType { r#type: authentication_type::Type::Key.into() })
}

type Asked<'a> = &'a [(&'a str, access_mode::Mode)];

fn grant_request(name: &str, buckets: Asked<'_>) -> DriverGrantBucketAccessRequest {
    let accessed = |(bucket, mode): &(&str, access_mode::Mode)| driver_grant_bucket_access_request::AccessedBucket {
        bucket_id: (*bucket).to_owned(),
        access_mode: Some(AccessMode { mode: (*mode).into() }),
    };
    DriverGrantBucketAccessRequest {
        account_name: name.into(),
        protocol: Some(s3()),
        authentication_type: key(),
        buckets: buckets.iter().map(accessed).collect(),
        ..Default::default()
    }
}

impl Fixture {
    async fn create(&self, name: &str, parameters: &[(&str, &str)]) -> Result<DriverCreateBucketResponse, Status> {
        let request =
            DriverCreateBucketRequest { name: name.into(), protocols: vec![s3()], parameters: map(parameters) };
        Ok(self.service.driver_create_bucket(Request::new(request)).await?.into_inner())
    }

    async fn existing(&self, id: &str, parameters: &[(&str, &str)]) -> Result<String, Status> {
        let request = DriverGetExistingBucketRequest {
            existing_bucket_id: id.into(),
            protocols: Vec::new(),
            parameters: map(parameters),
        };
        Ok(self.service.driver_get_existing_bucket(Request::new(request)).await?.into_inner().bucket_id)
    }

    async fn grant(&self, name: &str, buckets: Asked<'_>) -> Result<DriverGrantBucketAccessResponse, Status> {
        let request = Request::new(grant_request(name, buckets));
        Ok(self.service.driver_grant_bucket_access(request).await?.into_inner())
    }

    async fn revoke(&self, account: &str, buckets: &[&str]) -> Result<(), Status> {
        let bucket =
            |bucket: &&str| driver_revoke_bucket_access_request::AccessedBucket { bucket_id: (*bucket).to_owned() };
        let request = DriverRevokeBucketAccessRequest {
            account_id: account.into(),
            protocol: Some(s3()),
            authentication_type: key(),
            buckets: buckets.iter().map(bucket).collect(),
            ..Default::default()
        };
        self.service.driver_revoke_bucket_access(Request::new(request)).await.map(|_| ())
    }

    async fn delete(&self, bucket: &str) -> Result<(), Status> {
        let request = DriverDeleteBucketRequest { bucket_id: bucket.into(), ..Default::default() };
        self.service.driver_delete_bucket(Request::new(request)).await.map(|_| ())
    }

    /// What the key in a grant's answer may do with a bucket.
    fn opens(&self, grant: &DriverGrantBucketAccessResponse, bucket: &str) -> Option<Mode> {
        let s3 = grant.credentials.as_ref().unwrap().s3.as_ref().unwrap();
        let identity = self.store.identify(&s3.access_key_id).unwrap()?;
        assert_eq!(identity.secret.reveal(), s3.access_secret_key);
        self.store.access(&identity.account, &name(bucket)).unwrap()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}

use access_mode::Mode::{ReadOnly, ReadWrite, WriteOnly};

#[tokio::test]
async fn the_driver_says_its_name_and_that_it_has_s3() {
    let service = identity::Service { name: "cosi.amphora.dev".into() };
    let answer = service.driver_get_info(Request::new(DriverGetInfoRequest {})).await.unwrap().into_inner();
    assert_eq!((answer.name.as_str(), answer.supported_protocols), ("cosi.amphora.dev", vec![s3()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_answers_where_it_is_and_at_once() {
    let f = fixture().await;
    for _ in 0..2 {
        let answer = f.create("bc-1", &[("quota", "1Gi")]).await.unwrap();
        let info = answer.protocols.unwrap();
        let s3 = info.s3.unwrap();
        assert_eq!((answer.bucket_id.as_str(), s3.bucket_id.as_str()), ("bc-1", "bc-1"));
        assert_eq!((s3.endpoint.as_str(), s3.region.as_str()), ("http://s3.example:9000", "us-east-1"));
        assert_eq!(s3.addressing_style.unwrap().style(), s3_addressing_style::Style::Path);
        assert!(info.azure.is_none() && info.gcs.is_none());
    }
    assert_eq!(code(f.create("bc-1", &[("quota", "2Gi")]).await), Code::AlreadyExists);
    assert_eq!(code(f.create("bc-2", &[("qouta", "2Gi")]).await), Code::InvalidArgument);
    let other = ObjectProtocol { r#type: object_protocol::Type::Gcs.into() };
    let request = DriverCreateBucketRequest { name: "bc-2".into(), protocols: vec![s3(), other], parameters: map(&[]) };
    assert_eq!(code(f.service.driver_create_bucket(Request::new(request)).await), Code::InvalidArgument);
    assert!(f.store.bucket(&name("bc-2")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_bucket_is_found_checked_and_never_deleted() {
    let f = fixture().await;
    let request = CreateBucket {
        name: name("photos"),
        owner: "root".into(),
        quota_bytes: Some(1 << 30),
        versioning: Versioning::Enabled,
        source: None,
        attributes: Default::default(),
        root: RootAttributes::default(),
    };
    f.store.create_bucket(request).await.unwrap();
    assert_eq!(f.existing("photos", &[]).await.unwrap(), "photos");
    assert_eq!(f.existing("photos", &[("quota", "1024Mi"), ("versioning", "enabled")]).await.unwrap(), "photos");
    for differs in [("quota", "2Gi"), ("versioning", "disabled")] {
        let status = f.existing("photos", &[differs]).await.unwrap_err();
        assert!(status.code() == Code::AlreadyExists && status.message().contains(differs.0), "{status}");
    }
    assert_eq!(code(f.existing("photos", &[("qouta", "1Gi")]).await), Code::InvalidArgument);
    for absent in ["absent", "Not_A_Name"] {
        assert_eq!(code(f.existing(absent, &[]).await), Code::NotFound, "{absent}");
    }
    let grant = f.grant("ba-1", &[("photos", ReadOnly)]).await.unwrap();
    assert_eq!(f.opens(&grant, "photos"), Some(Mode::Read));
    assert_eq!(code(f.delete("photos").await), Code::FailedPrecondition);
    f.revoke(&grant.account_id, &["photos"]).await.unwrap();
    assert_eq!(f.opens(&grant, "photos"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_opens_several_buckets_each_in_its_mode() {
    let f = fixture().await;
    for bucket in ["bc-1", "bc-2", "bc-3", "bc-4"] {
        f.create(bucket, &[]).await.unwrap();
    }
    let asked = [("bc-1", ReadOnly), ("bc-2", WriteOnly), ("bc-3", ReadWrite)];
    let turned = [("bc-3", ReadWrite), ("bc-1", ReadOnly), ("bc-2", WriteOnly)];
    let (one, two, three) = tokio::join!(f.grant("ba-1", &asked), f.grant("ba-1", &turned), f.grant("ba-1", &asked));
    let one = one.unwrap();
    assert!(one == two.unwrap() && one == three.unwrap(), "one account, one key");
    let infos: Vec<_> = one.buckets.iter().map(|bucket| bucket.bucket_id.as_str()).collect();
    assert_eq!(infos, ["bc-1", "bc-2", "bc-3"]);
    let opened = ["bc-1", "bc-2", "bc-3", "bc-4"].map(|bucket| f.opens(&one, bucket));
    assert_eq!(opened, [Some(Mode::Read), Some(Mode::Write), Some(Mode::ReadWrite), None]);

    // The key is in a Secret: it opens neither more nor less than that Secret says.
    for other in
        [&asked[..2], &[("bc-1", ReadWrite), asked[1], asked[2]], &[asked[0], asked[1], asked[2], ("bc-4", ReadOnly)]]
    {
        assert_eq!(code(f.grant("ba-1", other).await), Code::AlreadyExists, "{other:?}");
    }
    assert_eq!(f.opens(&one, "bc-4"), None);

    f.revoke(&one.account_id, &["bc-1"]).await.unwrap();
    assert_eq!((f.opens(&one, "bc-1"), f.opens(&one, "bc-2")), (None, Some(Mode::Write)));
    for _ in 0..2 {
        f.revoke(&one.account_id, &["bc-1", "bc-2", "bc-3"]).await.unwrap();
        assert!(f.store.account(&one.account_id).is_err(), "the account goes with its last bucket");
    }
    for bucket in ["bc-1", "bc-2", "bc-3"] {
        f.delete(bucket).await.unwrap();
        f.delete(bucket).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_or_unknown_in_a_grant_is_named() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    let good = || grant_request("ba-1", &[("bc-1", ReadOnly)]);
    let service_account = AuthenticationType { r#type: authentication_type::Type::ServiceAccount.into() };
    let azure = ObjectProtocol { r#type: object_protocol::Type::Azure.into() };
    let cases = [
        (
            DriverGrantBucketAccessRequest { account_name: String::new(), ..good() },
            Code::InvalidArgument,
            "account_name",
        ),
        (DriverGrantBucketAccessRequest { protocol: None, ..good() }, Code::InvalidArgument, "protocol"),
        (DriverGrantBucketAccessRequest { protocol: Some(azure), ..good() }, Code::InvalidArgument, "AZURE"),
        (
            DriverGrantBucketAccessRequest { authentication_type: None, ..good() },
            Code::InvalidArgument,
            "authentication",
        ),
        (
            DriverGrantBucketAccessRequest { authentication_type: Some(service_account), ..good() },
            Code::InvalidArgument,
            "service_account_name",
        ),
        (DriverGrantBucketAccessRequest { buckets: Vec::new(), ..good() }, Code::InvalidArgument, "buckets"),
        (
            DriverGrantBucketAccessRequest { parameters: map(&[("mode", "rw")]), ..good() },
            Code::InvalidArgument,
            "\"mode\"",
        ),
        (grant_request("ba-1", &[("bc-1", access_mode::Mode::Unknown)]), Code::InvalidArgument, "access_mode"),
        (grant_request("ba-1", &[("bc-1", ReadOnly), ("bc-1", ReadWrite)]), Code::InvalidArgument, "twice"),
        (grant_request("ba-1", &[("bc-1", ReadOnly), ("absent", ReadOnly)]), Code::NotFound, "absent"),
        (grant_request("ba-1", &[("Not_A_Name", ReadOnly)]), Code::NotFound, "Not_A_Name"),
    ];
    for (request, code, words) in cases {
        let status = f.service.driver_grant_bucket_access(Request::new(request)).await.unwrap_err();
        assert!(status.code() == code && status.message().contains(words), "{words}: {status}");
    }
    assert!(f.store.account("cosi-ba-1").is_err(), "a refused grant leaves no account");
    assert_eq!(code(f.revoke("cosi-ba-1", &[]).await), Code::InvalidArgument);
    assert_eq!(code(f.revoke("root", &["bc-1"]).await), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_required_field_is_missed_by_its_name() {
    let f = fixture().await;
    let bucket = || driver_revoke_bucket_access_request::AccessedBucket { bucket_id: "bc-1".into() };
    let good = || DriverRevokeBucketAccessRequest {
        account_id: "cosi-ba-1".into(),
        protocol: Some(s3()),
        authentication_type: key(),
        buckets: vec![bucket()],
        ..Default::default()
    };
    let s = &f.service;
    s.driver_revoke_bucket_access(Request::new(good())).await.expect("unknown counts as revoked");
    let mut refused = Vec::new();
    for (request, field) in [
        (DriverRevokeBucketAccessRequest { account_id: String::new(), ..good() }, "account_id"),
        (DriverRevokeBucketAccessRequest { protocol: None, ..good() }, "protocol"),
        (DriverRevokeBucketAccessRequest { authentication_type: None, ..good() }, "authentication_type"),
        (DriverRevokeBucketAccessRequest { buckets: Vec::new(), ..good() }, "buckets"),
    ] {
        refused.push((s.driver_revoke_bucket_access(Request::new(request)).await.err(), field));
    }
    refused.push((f.create("", &[]).await.err(), "name"));
    refused.push((f.existing("", &[]).await.err(), "existing_bucket_id"));
    refused.push((f.delete("").await.err(), "bucket_id"));
    refused.push((f.grant("", &[("bc-1", ReadOnly)]).await.err(), "account_name"));
    refused.push((f.grant("ba-1", &[("", ReadOnly)]).await.err(), "bucket_id"));
    for (status, field) in refused {
        let status = status.expect(field);
        assert!(status.code() == Code::InvalidArgument && status.message().contains(field), "{field}: {status}");
        assert!(status.details().is_empty());
    }
}

fn service_account_request(
    name: &str,
    buckets: Asked<'_>,
    parameters: &[(&str, &str)],
) -> DriverGrantBucketAccessRequest {
    let service_account = AuthenticationType { r#type: authentication_type::Type::ServiceAccount.into() };
    DriverGrantBucketAccessRequest {
        authentication_type: Some(service_account),
        service_account_name: "web".into(),
        parameters: map(parameters),
        ..grant_request(name, buckets)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_gets_a_role_and_no_key() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.create("bc-2", &[]).await.unwrap();
    let grant = |request| f.service.driver_grant_bucket_access(Request::new(request));
    let buckets: Asked<'_> = &[("bc-1", ReadOnly), ("bc-2", ReadWrite)];
    let shop = [("serviceAccountNamespace", "shop"), ("audience", "amphora")];
    let made = grant(service_account_request("ba-1", buckets, &shop)).await.unwrap().into_inner();
    let again = grant(service_account_request("ba-1", buckets, &shop)).await.unwrap().into_inner();
    assert_eq!(made, again);
    assert_eq!(made.account_id, "cosi-ba-1");
    assert_eq!(made.credentials.and_then(|info| info.s3), Some(S3CredentialInfo::default()), "there is no key");
    assert!(f.store.keys(Some("cosi-ba-1")).unwrap().is_empty());
    let role = f.store.role("cosi-ba-1", "workload").unwrap().unwrap();
    let includes = |subject: &str, audience: &str| {
        role.identities.iter().any(|one| one.includes("https://kubernetes.default.svc", subject, audience))
    };
    assert!(includes("system:serviceaccount:shop:web", "amphora"));
    assert!(
        !includes("system:serviceaccount:shop:web", "other") && !includes("system:serviceaccount:shop:db", "amphora")
    );
    let account = f.store.account("cosi-ba-1").unwrap();
    let modes = ["bc-1", "bc-2"].map(|bucket| f.store.access(&account, &name(bucket)).unwrap());
    assert_eq!(modes, [Some(Mode::Read), Some(Mode::ReadWrite)]);

    let other_namespace = [("serviceAccountNamespace", "other"), ("audience", "amphora")];
    for different in [
        service_account_request("ba-1", buckets, &other_namespace),
        service_account_request("ba-1", &[("bc-1", ReadOnly)], &shop),
        grant_request("ba-1", buckets),
    ] {
        assert_eq!(code(grant(different).await), Code::AlreadyExists, "what was handed out does not change");
    }
    f.grant("ba-2", buckets).await.unwrap();
    assert_eq!(code(grant(service_account_request("ba-2", buckets, &shop)).await), Code::AlreadyExists);
    for (parameters, named) in [
        (&[][..], "serviceAccountNamespace"),
        (&[("serviceAccountNamespace", "*")], "serviceAccountNamespace"),
        (&[("serviceAccountNamespace", "shop"), ("mode", "ro")], "mode"),
    ] {
        let status = grant(service_account_request("ba-3", buckets, parameters)).await.unwrap_err();
        assert!(status.code() == Code::InvalidArgument && status.message().contains(named), "{status}");
    }
    assert!(f.store.account("cosi-ba-3").is_err());
    for _ in 0..2 {
        f.revoke("cosi-ba-1", &["bc-1", "bc-2"]).await.unwrap();
        assert!(f.store.role("cosi-ba-1", "workload").unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_of_others_are_neither_handed_out_nor_deleted() {
    let f = fixture().await;
    f.create("bc-1", &[]).await.unwrap();
    f.store.create_account("cosi-mine", false).await.unwrap();
    f.store.add_grant(&name("bc-1"), "cosi-mine", Mode::Read).await.unwrap();
    assert_eq!(code(f.grant("mine", &[("bc-1", ReadOnly)]).await), Code::AlreadyExists);
    assert!(f.store.keys(Some("cosi-mine")).unwrap().is_empty());
    assert_eq!(code(f.revoke("cosi-mine", &["bc-1"]).await), Code::FailedPrecondition);
    assert!(f.store.account("cosi-mine").is_ok());
}
