//! Server and holder in containers of their own, as in Kubernetes: neither sees the other's process.

use std::process::{Child, Command, Stdio};

use super::*;

/// Starts a program in a PID namespace of its own, which ends with the program that starts it.
const APART: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];

/// A holder that runs apart. Dropping it kills it.
struct Apart(Child);

impl Apart {
    fn start(server: &Server) -> Self {
        let socket = server.home().socket("holder");
        // A holder that was killed leaves its socket.
        let _ = std::fs::remove_file(&socket);
        let holder = Self::restart(server);
        wait_until(limit(20), || socket.exists().then_some(())).expect("the holder listens");
        holder
    }

    /// Starts the next holder at the socket that the last one left.
    fn restart(server: &Server) -> Self {
        let socket = server.home().socket("holder");
        let mut command = Command::new(APART[0]);
        command.args(&APART[1..]).arg(amphora().expect("it is built"));
        command.args(["holder", "--socket", &format!("unix://{}", socket.display())]).stdin(Stdio::null());
        Self(command.spawn().expect("unshare"))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The last server holds the lock on the folder for a moment after its container ended.
fn start_again(server: &mut Server) {
    let started = wait_until(limit(60), || server.try_restart().is_ok().then_some(()));
    assert!(started.is_some(), "the next server starts:\n{}", server.log());
}

#[test]
fn a_mount_outlives_its_server_when_holder_and_servers_are_in_containers() {
    need!(root_and_fuse());
    let mut server = Options::default().holder().under(APART).start();
    let _holder = Apart::start(&server);
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::held(&server, BUCKET, "m");
    let file = mount.path().join("f");
    std::fs::write(&file, "kept").expect("written");
    for _ in 0..3 {
        server.kill9();
        let waiting = std::thread::spawn({
            let file = file.clone();
            move || std::fs::read(file)
        });
        start_again(&mut server);
        assert!(is_mounted(mount.path()), "the holder kept the mount:\n{}", server.log());
        assert_eq!(waiting.join().expect("it ends").expect("the file is read"), b"kept");
    }
    mount.unmount(&server);
    let log = server.log();
    assert!(!log.contains("no fd holder keeps"), "{log}");
    let audited = log.lines().find(|line| line.contains("call=\"CreateBucket\"")).expect("a line of the audit trail");
    assert!(audited.contains("uid=0") && !audited.contains("pid="), "the caller's number counts elsewhere: {audited}");
}

/// A holder that is replaced gets its socket back: the server starts none that would end with the server's container.
#[test]
fn a_mount_outlives_its_holder_and_then_its_server_when_only_others_start_holders() {
    need!(root_and_fuse());
    let mut server = Options::default().holder().args(["--start-holder", "false"]).under(APART).start();
    let holder = Apart::start(&server);
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::held(&server, BUCKET, "m");
    let file = mount.path().join("f");
    std::fs::write(&file, "kept").expect("written");
    drop(holder);
    let looked = || server.log().contains("no fd holder keeps the mounts").then_some(());
    assert!(wait_until(limit(20), looked).is_some(), "the server looks for a holder:\n{}", server.log());
    assert_eq!(std::fs::read(&file).expect("the server serves it meanwhile"), b"kept");
    let _next = Apart::start(&server);
    let kept = || server.log().contains("an fd holder keeps the mounts again").then_some(());
    assert!(wait_until(limit(20), kept).is_some(), "the next holder has the mount:\n{}", server.log());
    server.kill9();
    start_again(&mut server);
    assert_eq!(std::fs::read(&file).expect("the file is read"), b"kept");
    mount.unmount(&server);
}

/// A supervisor that restarts the holder takes a moment, in which the server must not take the socket.
#[test]
fn a_holder_that_its_supervisor_restarts_gets_its_socket_back() {
    need!(root_and_fuse());
    let server = Options::default().holder().start();
    let holder = Apart::start(&server);
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::held(&server, BUCKET, "m");
    drop(holder);
    std::thread::sleep(Duration::from_millis(300));
    let mut next = Apart::restart(&server);
    let kept = || server.log().contains("an fd holder keeps the mounts again").then_some(());
    assert!(wait_until(limit(20), kept).is_some(), "the next holder has the mount:\n{}", server.log());
    assert!(!server.log().contains("started a holder"), "{}", server.log());
    assert!(next.0.try_wait().expect("a child").is_none(), "the next holder runs");
    mount.unmount(&server);
}
