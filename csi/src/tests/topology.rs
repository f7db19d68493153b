//! Volumes that can be used in one place only.

use proto::csi::v1::identity_server::Identity as _;
use proto::csi::v1::node_server::Node as _;
use proto::csi::v1::plugin_capability::{Type, service};

use super::*;
use crate::capability::tests::block;

fn place(segments: &[(&str, &str)]) -> proto::csi::v1::Topology {
    let segments = segments.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    proto::csi::v1::Topology { segments }
}

fn required(name: &str, requisite: Vec<proto::csi::v1::Topology>) -> CreateVolumeRequest {
    let preferred = requisite.clone();
    CreateVolumeRequest {
        name: name.into(),
        volume_capabilities: vec![writer()],
        accessibility_requirements: Some(TopologyRequirement { requisite, preferred }),
        ..Default::default()
    }
}

async fn is_constrained(config: &Config) -> bool {
    let identity = crate::identity::Service::new(config);
    let answer = identity.get_plugin_capabilities(Request::new(GetPluginCapabilitiesRequest {})).await.unwrap();
    let wanted = i32::from(service::Type::VolumeAccessibilityConstraints);
    let is_it = |one: &PluginCapability| matches!(&one.r#type, Some(Type::Service(found)) if found.r#type == wanted);
    answer.into_inner().capabilities.iter().any(is_it)
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_and_nodes_say_where_they_are_only_if_the_operator_does() {
    let topology: Topology = "zone=z1,node=a".parse().unwrap();
    let f = start_in(Nodes::Own, topology.clone()).await;
    assert!(is_constrained(&Config { topology, ..config(f.dir.path()) }).await);
    let info = f.node.node_get_info(Request::new(NodeGetInfoRequest {})).await.unwrap().into_inner();
    let here = place(&[("zone", "z1"), ("node", "a")]);
    assert_eq!(info.accessible_topology, Some(here.clone()));
    let make = async |request| f.controller.create_volume(Request::new(request)).await;
    let made = make(required("pvc-1", vec![place(&[("zone", "z2"), ("node", "b")]), here.clone()])).await.unwrap();
    assert_eq!(made.into_inner().volume.unwrap().accessible_topology, std::slice::from_ref(&here));
    let elsewhere = required("pvc-2", vec![place(&[("zone", "z1"), ("node", "b")])]);
    let refused = make(elsewhere).await.unwrap_err();
    assert!(refused.code() == Code::ResourceExhausted && refused.message().contains("node=a,zone=z1"), "{refused}");
    assert!(f.store.bucket(&name("pvc-2")).is_err());
    let moved = make(required("pvc-1", vec![place(&[("zone", "z1"), ("node", "b")])])).await;
    assert_eq!(code(moved), Code::AlreadyExists, "it exists, and not there");
    let preferred = vec![place(&[("zone", "z9"), ("node", "z")])];
    let preferred = Some(TopologyRequirement { requisite: Vec::new(), preferred });
    let made = make(CreateVolumeRequest { accessibility_requirements: preferred, ..required("pvc-3", vec![]) }).await;
    let made = made.unwrap().into_inner().volume.unwrap();
    assert_eq!(made.accessible_topology, std::slice::from_ref(&here), "what is preferred is no requirement");
    let listed = f.controller.list_volumes(Request::new(ListVolumesRequest::default())).await.unwrap().into_inner();
    assert_eq!(listed.entries[0].volume.as_ref().unwrap().accessible_topology, std::slice::from_ref(&here));

    let capacity = async |accessible_topology| {
        let request = GetCapacityRequest { accessible_topology: Some(accessible_topology), ..Default::default() };
        f.controller.get_capacity(Request::new(request)).await.unwrap().into_inner().available_capacity
    };
    assert!(capacity(here).await > 0);
    assert_eq!(capacity(place(&[("zone", "z2"), ("node", "a")])).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_place_volumes_are_used_everywhere() {
    let f = fixture().await;
    assert!(!is_constrained(&config(f.dir.path())).await);
    let request = required("pvc-1", vec![place(&[("zone", "z2")])]);
    let made = f.controller.create_volume(Request::new(request)).await.unwrap().into_inner().volume.unwrap();
    assert!(made.accessible_topology.is_empty());
    let info = f.node.node_get_info(Request::new(NodeGetInfoRequest {})).await.unwrap().into_inner();
    assert_eq!(info.accessible_topology, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_is_of_what_a_class_can_have() {
    let f = fixture().await;
    let capacity = async |capability, parameters: &[(&str, &str)]| {
        let parameters = parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let request = GetCapacityRequest { volume_capabilities: vec![capability], parameters, ..Default::default() };
        f.controller.get_capacity(Request::new(request)).await.unwrap().into_inner()
    };
    let mode = access_mode::Mode::SingleNodeWriter;
    let mounted = capacity(writer(), &[("versioning", "enabled"), ("secondWriter", "fence")]).await;
    assert!(mounted.available_capacity > 0 && mounted.maximum_volume_size.is_none());
    let device = capacity(block(mode), &[]).await;
    assert!(device.available_capacity > 0 && device.minimum_volume_size == Some(4096));
    assert!(device.maximum_volume_size.is_some_and(|most| most % 4096 == 0 && most > device.available_capacity));
    assert_eq!(
        capacity(block(mode), &[("versioning", "enabled")]).await.available_capacity,
        0,
        "a device keeps no versions"
    );
}
