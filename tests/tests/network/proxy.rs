//! A TCP proxy on loopback that delays, cuts, and falls silent in one direction or both.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a connection looks at what it may do.
const LOOK: Duration = Duration::from_millis(10);

/// A proxy; it ends when it is dropped.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    to: Mutex<SocketAddr>,
    /// Whether bytes of the client are held back, and those of the server: they arrive later, as over a real network.
    is_silent: [AtomicBool; 2],
    delay_micros: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
    ends: AtomicBool,
}

impl Proxy {
    /// A proxy to this address.
    ///
    /// # Panics
    /// Without a port of loopback.
    pub fn to(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("the port");
        let state = Arc::new(State {
            to: Mutex::new(to),
            is_silent: Default::default(),
            delay_micros: AtomicU64::new(0),
            open: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, state }
    }

    /// Leads connections elsewhere from now on.
    pub fn lead_to(&self, to: SocketAddr) {
        *self.state.to.lock().expect("no thread panics while it holds the lock") = to;
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for stream in self.state.open.lock().expect("no thread panics while it holds the lock").drain(..) {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Holds back what the client sends, or what the server does, or both; or lets it pass.
    pub fn silence(&self, client: bool, server: bool) {
        for (is_silent, silent) in self.state.is_silent.iter().zip([client, server]) {
            is_silent.store(silent, Ordering::SeqCst);
        }
    }

    /// Delays all bytes by this.
    pub fn delay(&self, by: Duration) {
        self.state.delay_micros.store(by.as_micros() as u64, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for client in listener.incoming() {
        if state.ends.load(Ordering::SeqCst) {
            return;
        }
        let to = *state.to.lock().expect("no thread panics while it holds the lock");
        let (Ok(client), Ok(server)) = (client, TcpStream::connect_timeout(&to, Duration::from_secs(1))) else {
            continue;
        };
        let mut open = state.open.lock().expect("no thread panics while it holds the lock");
        for (side, (from, into)) in [(&client, &server), (&server, &client)].into_iter().enumerate() {
            let (Ok(from), Ok(into), Ok(kept)) = (from.try_clone(), into.try_clone(), from.try_clone()) else {
                continue;
            };
            open.push(kept);
            let state = Arc::clone(state);
            std::thread::spawn(move || pump(from, into, side, &state));
        }
    }
}

/// Passes bytes of one direction on until either side hangs up.
fn pump(mut from: TcpStream, mut into: TcpStream, side: usize, state: &State) {
    let mut bytes = vec![0; 64 << 10];
    // The deadline only lets the loop look.
    let set =
        from.set_nodelay(true).and_then(|()| into.set_nodelay(true)).and_then(|()| from.set_read_timeout(Some(LOOK)));
    while set.is_ok() && !state.ends.load(Ordering::SeqCst) {
        if state.is_silent[side].load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
            continue;
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => {
                std::thread::sleep(Duration::from_micros(state.delay_micros.load(Ordering::SeqCst)));
                while state.is_silent[side].load(Ordering::SeqCst) && !state.ends.load(Ordering::SeqCst) {
                    std::thread::sleep(LOOK);
                }
                if into.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}
