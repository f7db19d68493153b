//! A TCP proxy that adds latency and nothing else: bytes arrive in order, a fixed time after they were sent, and any number
//! of them may be under way. The kernel's own means (netem) are missing on many machines.
//!
//!     rustc -O benches/delay.rs && ./delay TARGET-ADDRESS MICROSECONDS
//!
//! It prints the address at which it listens, on loopback. The time is that of one direction: half of the round trip.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// What is read at once, and how many of these are under way at most: 64 MiB each way.
const BYTES: usize = 64 << 10;
const PARTS: usize = 1024;

unsafe extern "C" {
    fn prctl(option: i32, value: u64, third: u64, fourth: u64, fifth: u64) -> i32;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, micros] = &arguments[..] else { panic!("usage: delay TARGET-ADDRESS MICROSECONDS") };
    let delay = Duration::from_micros(micros.parse().expect("a number of microseconds"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    println!("{}", listener.local_addr().expect("its address"));
    for client in listener.incoming() {
        let (Ok(client), Ok(server)) = (client, TcpStream::connect(target)) else { continue };
        for stream in [&client, &server] {
            stream.set_nodelay(true).expect("a socket");
        }
        let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        pass(clone(&client), clone(&server), delay);
        pass(server, client, delay);
    }
}

/// Passes one direction on.
fn pass(mut from: TcpStream, mut into: TcpStream, delay: Duration) {
    let (sender, parts) = sync_channel::<(Instant, Vec<u8>)>(PARTS);
    std::thread::spawn(move || {
        let mut bytes = vec![0; BYTES];
        while let Ok(read) = from.read(&mut bytes) {
            if read == 0 || sender.send((Instant::now() + delay, bytes[..read].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        // PR_SET_TIMERSLACK: sleeps are otherwise up to 50 microseconds longer.
        unsafe { prctl(29, 1, 0, 0, 0) };
        for (due, bytes) in parts {
            let now = Instant::now();
            if due > now {
                std::thread::sleep(due - now);
            }
            if into.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = into.shutdown(Shutdown::Both);
    });
}
