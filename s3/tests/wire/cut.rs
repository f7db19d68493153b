//! Downloads that end early: metrics count them as cut off, with the bytes that were sent.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use prometheus_client::registry::Registry;

use crate::endpoint::{Endpoint, head};
use crate::sign::{EMPTY, sign};

/// More than the kernel's socket buffers take.
const LARGE: usize = 48 << 20;

struct Counted {
    endpoint: Endpoint,
    registry: Registry,
}

impl Counted {
    fn start(set: impl FnOnce(&mut s3::Config)) -> Self {
        let mut registry = Registry::default();
        let metrics = s3::Metrics::new(&mut registry);
        let endpoint = Endpoint::start_with(|config| {
            config.metrics = metrics;
            set(config);
        });
        assert_eq!(endpoint.send("PUT", "/wire/large", "", &[], &vec![7; LARGE]).code(), "OK");
        Self { endpoint, registry }
    }

    fn figure(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
        line.unwrap_or_else(|| panic!("{name}: {text}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until the metrics count `count` answers cut off for this reason.
    fn cut(&self, reason: &str, count: u64) {
        let name = format!("s3_answers_cut_total{{reason=\"{reason}\"}}");
        for _ in 0..2_000 {
            if self.figure(&name) == count {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} answers were cut: {reason}", self.figure(&name));
    }

    /// Requests the large object, and reads its first bytes.
    fn sip(&self, bytes: usize) -> std::net::TcpStream {
        let signed = sign(&self.endpoint.root, "GET", "/wire/large", "", &[], EMPTY);
        let mut stream = self.endpoint.connect();
        stream.write_all(head("GET", "/wire/large", "", &signed.headers, 0).as_bytes()).unwrap();
        stream.read_exact(&mut vec![0; bytes]).unwrap();
        stream
    }
}

#[test]
fn a_download_whose_client_leaves_is_counted_as_cut_and_with_the_bytes_that_left() {
    let counted = Counted::start(|_| ());
    assert_eq!(counted.endpoint.send("GET", "/wire/large", "", &[], b"").body.len(), LARGE);
    counted.cut("client", 0);
    let mut whole = 0;
    for _ in 0..2_000 {
        whole = counted.figure("s3_sent_bytes_total");
        if whole >= LARGE as u64 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(whole, LARGE as u64, "a whole download counts with all its bytes");
    drop(counted.sip(1 << 20));
    counted.cut("client", 1);
    let sent = counted.figure("s3_sent_bytes_total") - whole;
    assert!((1_000_000..LARGE as u64).contains(&sent), "{sent}");
}

#[test]
fn a_download_whose_client_takes_nothing_more_is_counted_as_stalled() {
    let counted = Counted::start(|config| config.limits.answer_stall = Duration::from_millis(300));
    let stream = counted.sip(1 << 20);
    counted.cut("stalled", 1);
    let sent = counted.figure("s3_sent_bytes_total");
    assert!((1_000_000..LARGE as u64).contains(&sent), "{sent}");
    drop(stream);
}
