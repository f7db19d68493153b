//! Many claims at once, as when an application with hundreds of volumes is installed and removed.

use std::time::Instant;

use super::*;

/// Claims that are created and deleted at once.
const CLAIMS: usize = 200;
/// The name of the machine.
const NODE: &str = "crowded";

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_claims_come_and_go_at_once_and_leave_nothing() {
    let driver = Driver::of(Options::default().args(["--node-id", NODE]).start()).await;
    let all = |driver: &Driver, what: &'static str, kinds: [bool; 2]| {
        let tasks: Vec<_> = (0..CLAIMS)
            .map(|number| {
                let (mut controller, is_block) = (driver.controller.clone(), kinds[number % 2]);
                tokio::spawn(async move { call(&mut controller, what, number, is_block).await })
            })
            .collect();
        async move {
            let begin = Instant::now();
            for (number, task) in tasks.into_iter().enumerate() {
                let done = task.await.expect("no panic");
                done.unwrap_or_else(|status| panic!("{what} of claim {number}: {status}"));
            }
            begin.elapsed()
        }
    };
    let kinds = [false, true];
    let mut times = Vec::new();
    for what in ["create", "create", "publish", "unpublish", "delete", "delete"] {
        times.push((what, all(&driver, what, kinds).await));
    }
    print_times(&times);
    let mut controller = driver.controller.clone();
    let left = controller.list_volumes(ListVolumesRequest::default()).await.expect("listed").into_inner();
    assert!(left.entries.is_empty(), "{left:?}");
}

/// Makes one call for a claim, as its sidecar would.
async fn call(
    controller: &mut ControllerClient<Channel>,
    what: &str,
    number: usize,
    is_block: bool,
) -> Result<(), Status> {
    let (volume_id, node_id) = (format!("pvc-{number}"), NODE.to_owned());
    let mut asked = capability(Mode::SingleNodeWriter);
    if is_block {
        asked.access_type = Some(AccessType::Block(volume_capability::BlockVolume {}));
    }
    match what {
        "create" => {
            let request = CreateVolumeRequest {
                name: volume_id,
                capacity_range: Some(CapacityRange { required_bytes: 1 << 20, limit_bytes: 0 }),
                volume_capabilities: vec![asked],
                ..Default::default()
            };
            controller.create_volume(request).await.map(drop)
        }
        "publish" => {
            let request = ControllerPublishVolumeRequest {
                volume_id,
                node_id,
                volume_capability: Some(asked),
                ..Default::default()
            };
            controller.controller_publish_volume(request).await.map(drop)
        }
        "unpublish" => {
            let request = ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
            controller.controller_unpublish_volume(request).await.map(drop)
        }
        _ => {
            let request = DeleteVolumeRequest { volume_id, ..Default::default() };
            controller.delete_volume(request).await.map(drop)
        }
    }
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture: how long the calls took")]
fn print_times(times: &[(&str, std::time::Duration)]) {
    for (what, took) in times {
        println!("{CLAIMS} claims at once, {what}: {} ms", took.as_millis());
    }
}
