//! The fd holder run in a thread, against well-behaved and misbehaving peers.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::message::{Answer, Request, VERSION};
use super::packet;
use super::{Attendant, Deposit, Error, FdHolder, Holder, Lifetime, Service};

const LIMIT: Duration = Duration::from_secs(10);

type Running = JoinHandle<std::io::Result<()>>;

fn start(path: &Path) -> Running {
    let service = Service::bind(path, "holder of a test", Lifetime::WhileNeeded).unwrap();
    std::thread::spawn(|| service.run())
}

fn rig() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holder.sock");
    (folder, path)
}

fn pipe() -> (File, OwnedFd) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    (read.into(), write)
}

fn wait_until(what: &str, mut true_now: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !true_now() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn deposits_outlive_their_depositor() {
    let (_folder, path) = rig();
    let running = start(&path);
    let ((mut read, write), (other, other_write)) = (pipe(), pipe());
    let first = Holder::connect(&path).unwrap();
    assert_eq!(first.program(), "holder of a test");
    assert!(!first.is_older());
    first.deposit(7, b"seven", &[write.as_fd(), other.as_fd()]).unwrap();
    first.deposit(u64::MAX, b"last", &[other_write.as_fd()]).unwrap();
    first.deposit(7, b"seven, again", &[write.as_fd(), other.as_fd()]).unwrap();
    drop((first, write, other_write, other));
    let second = Holder::connect(&path).unwrap();
    let held = second.list().unwrap();
    let told: Vec<_> = held.iter().map(|deposit| (deposit.id, deposit.record.as_slice())).collect();
    assert_eq!(told, [(7, b"seven, again".as_slice()), (u64::MAX, b"last")]);
    let mut heard = [0; 2];
    File::from(held.into_iter().next().unwrap().descriptors.remove(0)).write_all(b"ok").unwrap();
    read.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"ok");
    for id in [7, u64::MAX, 5] {
        second.withdraw(id).unwrap();
    }
    assert_eq!(read.read(&mut heard).unwrap(), 0, "the holder closed it");
    assert!(second.list().unwrap().is_empty());
    drop(second);
    running.join().unwrap().unwrap();
    assert!(!path.exists());
}

/// Tells which deposits it was shown last.
struct Watching(mpsc::Sender<Vec<u64>>);

impl Attendant for Watching {
    fn look(&mut self, deposits: &mut dyn Iterator<Item = &Deposit>) {
        // The test may be over.
        let _ = self.0.send(deposits.map(|deposit| deposit.id).collect());
    }

    fn wakes(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        Vec::new()
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    fn attend(&mut self) {}
}

#[test]
fn mounts_without_a_server_are_looked_after_unless_a_server_that_does_not_claim_them_may_have_them() {
    let (_folder, path) = rig();
    let (shown, looks) = mpsc::channel();
    let service = Service::bind(&path, "", Lifetime::WhileNeeded).unwrap();
    let service = service.with_attendant(Box::new(Watching(shown)));
    let running = std::thread::spawn(|| service.run());
    let server = Holder::connect(&path).unwrap();
    let (_read, write) = pipe();
    server.deposit(1, b"", &[write.as_fd()]).unwrap();
    server.deposit(2, b"", &[write.as_fd()]).unwrap();
    drop(server);
    let sees = |what: &str, ids: &[u64]| wait_until(what, || looks.try_iter().last().is_some_and(|last| last == ids));
    sees("both", &[1, 2]);
    let server = Holder::connect(&path).unwrap();
    server.withdraw(2).unwrap();
    sees("the one that is left, although a server is connected: it may wait for its store", &[1]);
    drop(server);
    let old = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    connect(&old, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    packet::send(&old, &Request::Next { from: 0 }.encode(1), &[]).unwrap();
    packet::receive(&old).unwrap().unwrap();
    sees("none", &[]);
    drop(old);
    std::thread::sleep(Duration::from_secs(2));
    assert!(looks.try_iter().all(|shown| shown.is_empty()), "its connection may have broken");
    let server = Holder::connect(&path).unwrap();
    assert_eq!(server.list().unwrap().len(), 1);
    sees("the one that is left", &[1]);
    server.withdraw(1).unwrap();
    drop(server);
    running.join().unwrap().unwrap();
}

#[test]
fn broken_peers_harm_nobody() {
    let (_folder, path) = rig();
    let running = start(&path);
    let good = Holder::connect(&path).unwrap();
    let (_read, write) = pipe();
    good.deposit(1, b"kept", &[write.as_fd()]).unwrap();
    let dial = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        socket
    };
    let answer = |socket: &OwnedFd| Answer::decode(&packet::receive(socket).unwrap().unwrap().bytes).unwrap();
    // Empty, truncated and meaningless packets, missing descriptors, a future version, too many bytes.
    drop(dial());
    for bad in [&[VERSION][..], &[VERSION, 1, 0, 0], &[255; 100], &Request::Withdraw { id: 1 }.encode(200)] {
        let socket = dial();
        packet::send(&socket, bad, &[write.as_fd()]).unwrap();
        assert!(matches!(answer(&socket), Answer::Refused(_)), "{bad:?}");
    }
    let socket = dial();
    packet::send(&socket, &Request::Deposit { id: 1, record: Vec::new() }.encode(VERSION), &[]).unwrap();
    assert!(matches!(answer(&socket), Answer::Refused(_)));
    packet::send(&socket, &vec![1; packet::BYTES_MAX + 1], &[]).unwrap();
    assert!(matches!(answer(&socket), Answer::Refused(_)));
    // A peer that sends requests and never reads, and more peers than allowed.
    for _ in 0..2_000 {
        let asked = packet::send(&socket, &Request::Next { from: 0 }.encode(VERSION), &[]);
        if asked.is_err() {
            break;
        }
    }
    let crowd: Vec<_> = (0..40).filter_map(|_| Holder::connect(&path).ok()).collect();
    assert!(crowd.len() < 40);
    assert_eq!(good.list().unwrap()[0].record, b"kept");
    drop((crowd, socket));
    good.withdraw(1).unwrap();
    drop(good);
    running.join().unwrap().unwrap();
}

#[test]
fn a_server_is_started_while_mounts_have_none() {
    let (_folder, path) = rig();
    let (started, starts) = mpsc::channel();
    let service = Service::bind(&path, "", Lifetime::WhileNeeded).unwrap();
    let service = service.with_starter(Box::new(move || started.send(()).unwrap()));
    let running = std::thread::spawn(|| service.run());
    let server = Holder::connect(&path).unwrap();
    let (_read, write) = pipe();
    server.deposit(1, b"", &[write.as_fd()]).unwrap();
    assert!(starts.recv_timeout(Duration::from_secs(5)).is_err(), "a server is connected");
    drop(server);
    starts.recv_timeout(LIMIT).expect("no server is connected");
    starts.recv_timeout(LIMIT).expect("none has come");
    let server = Holder::connect(&path).unwrap();
    let _ = starts.try_iter().count();
    assert!(starts.recv_timeout(Duration::from_secs(5)).is_err(), "a server has come");
    server.withdraw(1).unwrap();
    drop(server);
    running.join().unwrap().unwrap();
    assert!(starts.try_recv().is_err(), "without mounts no server is needed");
}

#[test]
fn what_has_no_holder_and_no_server_ends() {
    let (_folder, path) = rig();
    let running = start(&path);
    let text = Service::bind(&path, "", Lifetime::WhileNeeded).err().unwrap().to_string();
    assert!(text.contains("already"), "{text}");
    let (read, write) = pipe();
    Holder::connect(&path).unwrap().deposit(1, b"", &[write.as_fd()]).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(!running.is_finished(), "it keeps something");
    // An unmounted mount, as the kernel reports it.
    drop(read);
    running.join().unwrap().unwrap();
    assert!(matches!(Holder::connect(&path), Err(Error::Absent { .. })));
    // The leftover socket of a killed holder.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let service = Service::bind(&path, "", Lifetime::WhileNeeded).unwrap();
    drop(service);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    assert!(Service::bind(&path, "", Lifetime::Forever).err().unwrap().to_string().contains("not a socket"));
}

/// A separate process would be killed; here its connections are cut and its socket is replaced.
#[test]
fn the_next_holder_gets_what_the_last_one_had() {
    let (folder, first) = rig();
    let second = folder.path().join("second.sock");
    let (dialled, paths) = (Arc::new(AtomicUsize::new(0)), [first.clone(), second.clone()]);
    let (running, count) = (start(&first), dialled.clone());
    let fd_holder =
        FdHolder::new(None, Box::new(move || Holder::connect(&paths[count.fetch_add(1, Ordering::SeqCst).min(1)])))
            .unwrap();
    let (_read, write) = pipe();
    let deposit = |id: u64| Deposit { id, record: vec![1], descriptors: vec![write.try_clone().unwrap()] };
    fd_holder.deposit(deposit(1)).unwrap();
    fd_holder.deposit(deposit(2)).unwrap();
    fd_holder.adopt(deposit(3));
    fd_holder.withdraw(2).unwrap();
    assert_eq!(dialled.load(Ordering::SeqCst), 1);
    fd_holder.cut();
    let _other = start(&second);
    wait_until("the next holder keeps them", || {
        Holder::connect(&second).is_ok_and(|next| next.list().is_ok_and(|held| held.len() == 2))
    });
    drop(fd_holder);
    let last = Holder::connect(&first).unwrap();
    assert_eq!(last.list().unwrap().len(), 1, "the first one still has what it was given");
    last.withdraw(1).unwrap();
    drop(last);
    running.join().unwrap().unwrap();
}

#[test]
fn without_a_holder_it_is_kept_as_soon_as_there_is_one() {
    let (_folder, path) = rig();
    let dial = path.clone();
    let fd_holder = FdHolder::new(None, Box::new(move || Holder::connect(&dial))).unwrap();
    let (_read, write) = pipe();
    let refused = fd_holder.deposit(Deposit { id: 1, record: Vec::new(), descriptors: vec![write] });
    assert!(matches!(refused, Err(Error::Absent { .. })));
    assert!(!fd_holder.is_held());
    let (started, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let service = Service::bind(&path, "", Lifetime::Forever).unwrap();
        started.send(()).unwrap();
        service.run()
    });
    wait.recv_timeout(LIMIT).unwrap();
    wait_until("it is kept", || fd_holder.is_held());
}

#[test]
fn a_holder_that_ends_leaves_the_socket_of_another_alone() {
    let (folder, path) = rig();
    let below = folder.path().join("run");
    let path = below.join(path.file_name().unwrap());
    std::fs::create_dir(&below).unwrap();
    let first = start(&path);
    std::fs::remove_dir_all(&below).unwrap();
    std::fs::create_dir(&below).unwrap();
    let second = start(&path);
    let server = Holder::connect(&path).unwrap();
    first.join().unwrap().unwrap();
    assert!(path.exists() && Holder::connect(&path).is_ok());
    drop(server);
    second.join().unwrap().unwrap();
    assert!(!path.exists());
}

/// The socket that a server running as root is given belongs to another user.
#[test]
fn nothing_is_handed_to_a_holder_of_another_user() {
    use std::os::unix::process::CommandExt as _;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (folder, path) = rig();
    std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
    let listen = "import socket, sys, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.bind(sys.argv[1])\n\
                  s.listen()\nprint('ready', flush=True)\nc, _ = s.accept()\nprint(len(c.recv(100)), flush=True)\n";
    let mut stranger = std::process::Command::new("python3");
    stranger.args(["-c", listen]).arg(&path).uid(65_534).stdout(std::process::Stdio::piped());
    let Ok(mut stranger) = stranger.spawn() else { return };
    let mut told = std::io::BufRead::lines(std::io::BufReader::new(stranger.stdout.take().unwrap()));
    assert_eq!(told.next().unwrap().unwrap(), "ready");
    let refused = Holder::connect(&path).err().unwrap();
    assert!(matches!(refused, Error::Stranger { uid: 65_534, .. }), "{refused}");
    assert_eq!(told.next().unwrap().unwrap(), "0", "not a word is said");
    stranger.wait().unwrap();
}
