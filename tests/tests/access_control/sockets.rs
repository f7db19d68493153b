//! The Unix sockets accept only root and the server's own user, even if the file's mode permits others; the data folder
//! is protected by its mode.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use proto::amphora::admin::v1::StatusRequest;
use proto::amphora::admin::v1::admin_client::AdminClient;
use proto::cosi::v1alpha1::DriverGetInfoRequest;
use proto::cosi::v1alpha1::identity_client::IdentityClient as CosiIdentity;
use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::identity_client::IdentityClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::{GetPluginInfoRequest, ListVolumesRequest, NodeGetInfoRequest};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use tonic::{Code, Status};

use crate::support::*;

const NOBODY: u32 = 65534;

/// Runs `work` as another user, on a thread that ends with it.
pub fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the raw call changes this thread alone, which ends here.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            work()
        });
        thread.join().expect("it ends")
    })
}

/// One call of each service on each socket, with a connection made by a separate thread.
fn calls(home: &Home) -> Vec<(&'static str, Result<(), Status>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let csi = grpc::channel(&home.socket("csi")).await;
        let node = grpc::channel(&home.socket("csi-node")).await;
        let cosi = grpc::channel(&home.socket("cosi")).await;
        let admin = grpc::channel(&home.socket("admin")).await;
        vec![
            ("csi", IdentityClient::new(csi.clone()).get_plugin_info(GetPluginInfoRequest {}).await.map(drop)),
            ("csi", ControllerClient::new(csi).list_volumes(ListVolumesRequest::default()).await.map(drop)),
            ("csi-node", NodeClient::new(node).node_get_info(NodeGetInfoRequest {}).await.map(drop)),
            ("cosi", CosiIdentity::new(cosi).driver_get_info(DriverGetInfoRequest {}).await.map(drop)),
            ("admin", AdminClient::new(admin).status(StatusRequest {}).await.map(drop)),
        ]
    })
}

/// Whether a holder accepts the caller: it closes connections of other users.
fn holder_answers(socket: &Path) -> bool {
    let address = SocketAddrUnix::new(socket).expect("short");
    let client = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    rustix::net::connect(&client, &address).expect("it listens");
    // The message Hello of version 1.
    let hello = rustix::net::send(&client, &[1, 0], rustix::net::SendFlags::NOSIGNAL);
    let mut answer = [0; 256];
    hello.is_ok()
        && rustix::net::recv(&client, &mut answer, rustix::net::RecvFlags::empty()).is_ok_and(|(read, _)| read > 0)
}

#[test]
fn sockets_are_private_and_refuse_other_users_even_with_an_open_mode() {
    // Only root can call as another user, and a server starts a holder only if it can mount.
    need!(root_and_fuse());
    let server = Options::default().split_csi().holder().start();
    let home = server.home();
    make_bucket(&server, "vessel", &[]);
    let mount = Mounted::held(&server, "vessel", "mounted");
    let names = ["csi", "csi-node", "cosi", "admin", "holder"];
    for name in names {
        let found = std::fs::metadata(home.socket(name)).expect("it is there");
        assert_eq!((found.mode() & 0o7777, found.uid()), (0o600, 0), "{name}");
    }
    assert!(
        as_nobody(|| std::os::unix::net::UnixStream::connect(home.socket("admin"))).is_err(),
        "the folder's mode excludes other users"
    );

    let open = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
    open(home.path(), 0o711);
    open(&home.path().join("run"), 0o711);
    names.iter().for_each(|name| open(&home.socket(name), 0o666));
    for (socket, answer) in as_nobody(|| calls(home)) {
        let status = answer.expect_err(socket);
        assert_eq!(status.code(), Code::PermissionDenied, "{socket}: {status}");
        let says = |word: &str| status.message().contains(word);
        assert!(says("65534") && says("root"), "{socket}: {status}");
    }
    assert!(!as_nobody(|| holder_answers(&home.socket("holder"))));
    for (socket, answer) in calls(home) {
        answer.unwrap_or_else(|status| panic!("{socket}: root is accepted: {status}"));
    }
    assert!(holder_answers(&home.socket("holder")));
    mount.unmount(&server);
}

#[test]
fn a_data_folder_of_another_user_is_refused_with_its_owner() {
    need!(root_and_fuse());
    let mut server = Server::start();
    assert_eq!(server.terminate().code(), Some(0));
    let home = server.home();
    for dir in [home.path(), &home.data_dir()] {
        std::fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("set");
    }
    let check = || objstore::check::run(&home.data_dir(), &objstore::check::Options::default());
    let refused = as_nobody(|| check().map(drop)).expect_err("the data folder belongs to root").to_string();
    assert!(refused.contains("user 65534") && refused.contains("the user who owns it"), "{refused}");
}

/// Their clients send the socket's path as `:authority`, which is not valid by RFC 3986.
#[test]
fn clients_of_the_grpc_c_core_are_served_on_every_socket() {
    let Some(python) = python() else { skip!("grpcio is missing: run tests/setup.sh") };
    let has_grpc =
        run(std::process::Command::new(&python).args(["-c", "import grpc"]), std::time::Duration::from_secs(60));
    if !has_grpc.is_ok_and(|outcome| outcome.status.success()) {
        skip!("grpcio is missing: run tests/setup.sh");
    }
    let server = Options::default().split_csi().start();
    let mut command = std::process::Command::new(&python);
    command.arg(repo().join("tests/python/core.py"));
    for (socket, method) in [
        ("csi", "/csi.v1.Identity/GetPluginInfo"),
        ("csi", "/csi.v1.Controller/ListVolumes"),
        ("csi-node", "/csi.v1.Node/NodeGetInfo"),
        ("cosi", "/cosi.v1alpha1.Identity/DriverGetInfo"),
        ("admin", "/amphora.admin.v1.Admin/Status"),
    ] {
        command.arg(format!("{}={method}", server.ready().socket(socket).display()));
    }
    program::run_checks(&mut command);
}
