//! The audit trail: every requested change has a line, including refused ones.

use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use proto::amphora::admin::v1::DeleteBucketRequest;
use proto::amphora::admin::v1::admin_client::AdminClient;
use proto::calls::{self, Call, Interface};
use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::{CapacityRange, CreateVolumeRequest};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::{line, lines, server};
use crate::access_control::as_nobody;
use crate::support::access::root_client;
use crate::support::cli::{cli, json, refusal};
use crate::support::*;

/// Calls a method with an empty request; returns its status and the request id of its audit line.
async fn call(channel: &Channel, call: &Call) -> (Code, String) {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("ready");
    let path = PathAndQuery::try_from(call.path()).expect("a path");
    let id = |metadata: &tonic::metadata::MetadataMap| {
        metadata.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned()
    };
    let refused = |status: Status| (status.code(), id(status.metadata()));
    if call.streams() {
        match grpc.server_streaming(Request::new(()), path, ProstCodec::<(), ()>::default()).await {
            Ok(answer) => {
                let id = id(answer.metadata());
                let mut stream = answer.into_inner();
                loop {
                    match stream.message().await {
                        Ok(Some(())) => {}
                        Ok(None) => return (Code::Ok, id),
                        Err(status) => return (status.code(), id),
                    }
                }
            }
            Err(status) => refused(status),
        }
    } else {
        match grpc.unary(Request::new(()), path, ProstCodec::<(), ()>::default()).await {
            Ok(answer) => (Code::Ok, id(answer.metadata())),
            Err(status) => refused(status),
        }
    }
}

/// The status code as the audit trail writes it, from its name in Rust.
fn written(code: Code) -> String {
    let name = format!("{code:?}");
    if code == Code::Ok {
        return "OK".to_owned();
    }
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

#[tokio::test]
async fn every_method_that_can_change_something_writes_a_line_and_no_other_does() {
    let server = server(&["--log-level", "warn"]);
    let mut channels = HashMap::new();
    for (interface, socket) in [(Interface::Admin, "admin"), (Interface::Csi, "csi"), (Interface::Cosi, "cosi")] {
        channels.insert(interface, grpc::channel(&server.ready().socket(socket)).await);
    }
    let mut expected = Vec::new();
    // Left out: Upgrade would replace the server, and WatchMount does not end.
    for method in calls::all().filter(|call| !matches!(call.name(), "Upgrade" | "WatchMount")) {
        let (code, id) = call(&channels[&method.interface()], method).await;
        assert!(!id.is_empty(), "{}: its answer has no request id", method.path());
        if method.changes() {
            expected.push((id, method, code));
        }
    }
    assert!(expected.len() > 30, "{}", expected.len());
    for (id, method, code) in &expected {
        let line = line(&server, "audit", |line| line["request_id"] == **id);
        let shown = (line["interface"].as_str(), line["call"].as_str(), line["code"].as_str());
        assert_eq!(
            shown,
            (Some(method.interface().name()), Some(method.name()), Some(written(*code).as_str())),
            "{line}"
        );
        assert_eq!(line["outcome"] == "ok", *code == Code::Ok, "{line}");
        // Tonic refuses an unknown method without a message.
        let explained = !matches!(code, Code::Ok | Code::Unimplemented);
        assert!(line["reason"].is_string() || !explained, "{line}");
        let (uid, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
        assert_eq!((line["uid"].as_u64(), line["pid"].as_u64()), (Some(uid.into()), Some(pid.into())), "{line}");
        assert!(line["ms"].is_number(), "{line}");
    }
    let all = lines(&server.log(), "audit");
    assert_eq!(all.len(), expected.len(), "{all:#?}");
}

#[tokio::test]
async fn a_line_says_what_was_done_on_what_and_why_it_was_refused() {
    let server = server(&["--audit-log", "trail.json"]);
    json(&server, &["bucket", "create", "doomed"]);
    root_client(&server).put_object().bucket("doomed").key("k").send().await.expect("put");
    assert!(refusal(&server, &["bucket", "delete", "doomed"], 1).contains("not empty"));
    cli(&server, &["bucket", "delete", "doomed", "--force"]);
    json(&server, &["account", "create", "alice"]);
    let key = json(&server, &["key", "create", "--account", "alice"]);
    let mut csi = ControllerClient::new(grpc::channel(&server.ready().socket("csi")).await);
    let request = CreateVolumeRequest {
        name: "pvc-1".into(),
        capacity_range: Some(CapacityRange { required_bytes: 1, limit_bytes: 0 }),
        secrets: HashMap::from([("password".to_owned(), "hunter2".to_owned())]),
        ..Default::default()
    };
    csi.create_volume(request).await.expect_err("a request without capabilities is refused");
    root_client(&server).create_bucket().bucket("made").send().await.expect("made");

    let on = |call: &str, outcome: &str| {
        let line = line(&server, "audit", |line| line["call"] == call && line["outcome"] == outcome);
        (line["on"].as_str().expect("text").to_owned(), line)
    };
    let (subject, refused) = on("DeleteBucket", "refused");
    assert_eq!(subject, "name=doomed");
    assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("not empty")), "{refused}");
    assert_eq!(on("DeleteBucket", "ok").0, "name=doomed force=true");
    let id = key["accessKeyId"].as_str().expect("an id");
    assert_eq!(on("CreateKey", "ok").0, format!("account=alice access_key_id={id}"));
    let (subject, failed) = on("CreateVolume", "refused");
    assert_eq!((subject.as_str(), failed["code"].as_str()), ("name=pvc-1", Some("INVALID_ARGUMENT")), "{failed}");
    let (subject, made) = on("CreateBucket", "ok");
    assert!(subject == "name=doomed" || subject == "bucket=made", "{made}");
    let settings = line(&server, "audit", |line| line["interface"] == "s3");
    assert_eq!((&settings["on"], &settings["account"]), (&"bucket=made".into(), &"root".into()), "{settings}");
    assert_eq!(settings["key_id"].as_str(), Some(server.credentials().access_key_id.as_str()));

    // The file of the audit trail has the same lines, only its owner may read it, and neither contains a secret.
    let file = server.home().path().join("trail.json");
    assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).expect("read");
    let secret = key["secretAccessKey"].as_str().expect("a secret");
    for place in [&text, &server.log()] {
        assert!(!place.contains(secret) && !place.contains("hunter2"), "{place}");
    }
    assert_eq!(lines(&text, "audit").len(), lines(&server.log(), "audit").len());
    assert_eq!(text.lines().count(), lines(&text, "audit").len(), "the file has audit lines only");
}

#[test]
fn a_refused_user_of_a_socket_writes_a_line() {
    need!(root_and_fuse());
    let server = server(&[]);
    let home = server.home();
    json(&server, &["bucket", "create", "kept"]);
    let open =
        |path: &std::path::Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
    open(home.path(), 0o711);
    open(&home.path().join("run"), 0o711);
    open(&home.socket("admin"), 0o666);
    let refused = as_nobody(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut admin = AdminClient::new(grpc::channel(&home.socket("admin")).await);
            admin.delete_bucket(DeleteBucketRequest { name: "kept".into(), force: true }).await
        })
    });
    assert_eq!(refused.expect_err("refused").code(), Code::PermissionDenied);
    let line = line(&server, "audit", |line| line["code"] == "PERMISSION_DENIED");
    assert_eq!(
        (&line["call"], &line["outcome"], &line["uid"]),
        (&"DeleteBucket".into(), &"refused".into(), &65_534.into())
    );
    json(&server, &["bucket", "show", "kept"]);
}
