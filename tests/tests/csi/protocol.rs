//! The protocol around the calls: where services listen, and what answers there. CSI v1.12, Connectivity, General
//! Configuration and CSI_ENDPOINT; the COSI specification has the same rules.

use std::fs;

use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::group_controller_client::GroupControllerClient;
use proto::csi::v1::identity_client::IdentityClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;
use proto::csi::v1::*;
use proto::{cosi::v1alpha1, cosi::v1alpha2};
use tonic::Code;

use crate::support::grpc::{channel, refused};
use crate::support::*;

#[tokio::test]
async fn one_socket_answers_all_services_and_each_of_two_its_own() {
    let server = Server::start();
    let all = channel(&server.ready().socket("csi")).await;
    IdentityClient::new(all.clone()).probe(ProbeRequest {}).await.expect("answered");
    ControllerClient::new(all.clone()).list_volumes(ListVolumesRequest::default()).await.expect("answered");
    NodeClient::new(all.clone()).node_get_info(NodeGetInfoRequest {}).await.expect("answered");
    let group = GroupControllerGetCapabilitiesRequest {};
    GroupControllerClient::new(all.clone()).group_controller_get_capabilities(group).await.expect("answered");
    let ranges = GetMetadataAllocatedRequest { snapshot_id: "absent".into(), ..Default::default() };
    let answer = SnapshotMetadataClient::new(all).get_metadata_allocated(ranges).await;
    refused("a snapshot that is not there", answer, Code::NotFound, &["absent"]);
    drop(server);

    let server = Options::default().split_csi().start();
    let controller = channel(&server.ready().socket("csi")).await;
    let node = channel(&server.ready().socket("csi-node")).await;
    for socket in [&controller, &node] {
        let info = IdentityClient::new(socket.clone()).get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await;
        let all = info.expect("answered").into_inner().capabilities;
        assert_eq!(all.len(), 4, "of the driver as a whole, wherever it is asked");
    }
    let answer = NodeClient::new(controller).node_get_info(NodeGetInfoRequest {}).await;
    refused("the node at the controller's socket", answer, Code::Unimplemented, &[]);
    let answer = ControllerClient::new(node).list_volumes(ListVolumesRequest::default()).await;
    refused("the controller at the node's socket", answer, Code::Unimplemented, &[]);
}

#[tokio::test]
async fn both_versions_of_cosi_answer_at_one_socket() {
    let server = Server::start();
    let socket = channel(&server.ready().socket("cosi")).await;
    let first = v1alpha1::identity_client::IdentityClient::new(socket.clone());
    let first = { first }.driver_get_info(v1alpha1::DriverGetInfoRequest {}).await.expect("answered").into_inner();
    let second = v1alpha2::identity_client::IdentityClient::new(socket);
    let second = { second }.driver_get_info(v1alpha2::DriverGetInfoRequest {}).await.expect("answered").into_inner();
    assert_eq!(first.name, second.name);
}

/// The orchestrator owns the folder of the socket.
#[test]
fn nothing_is_made_beside_a_socket_and_the_socket_goes_with_the_server() {
    let mut server = Server::start();
    let home = server.home().path().to_owned();
    let folder = server.ready().socket("csi").parent().expect("a folder").to_owned();
    let entries = || {
        let entries = fs::read_dir(&folder).expect("listed").map(|entry| entry.expect("listed").file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
        names.sort_unstable();
        names
    };
    let sockets = ["admin", "cosi", "csi"].map(|name| server.ready().socket(name));
    let others = |all: Vec<String>| -> Vec<String> {
        let of_test = |name: &String| folder.join(name) == home.join("data") || name.ends_with(".log");
        all.into_iter().filter(|name| !of_test(name)).collect()
    };
    let names = sockets.map(|path| path.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned());
    assert_eq!(others(entries()), names);
    assert!(server.terminate().success());
    assert_eq!(others(entries()), Vec::<String>::new());
}
