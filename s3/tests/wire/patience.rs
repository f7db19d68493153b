//! Slow, silent, and too many clients.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::endpoint::{EXPECT, Endpoint, closes, goes_on, head, receive};
use crate::http2::Client;
use crate::sign::{EMPTY, sha256, sign};

const SHORT: Duration = Duration::from_millis(400);

#[test]
fn who_sends_nothing_or_half_a_head_is_closed() {
    let endpoint = Endpoint::start_with(|config| config.limits.head = SHORT);
    let begun = Instant::now();
    let mut silent: Vec<TcpStream> = ["", "PRI * HT", "GET / HTTP/1.1\r\nhost: a", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        .iter()
        .map(|sent| {
            let mut stream = endpoint.connect();
            stream.write_all(sent.as_bytes()).unwrap();
            stream
        })
        .collect();
    // A client that sends a byte now and then has the same time limit.
    let mut drop_by_drop = endpoint.connect();
    let mut sent = 0;
    while drop_by_drop.write_all(b"G").is_ok() && sent < 100 {
        sent += 1;
        std::thread::sleep(SHORT / 4);
    }
    assert!(sent < 100, "the server closed the slow connection");
    let mut rest = Vec::new();
    for stream in &mut silent {
        // HTTP/2 servers send their settings first, so there may be something to read.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(begun.elapsed() >= SHORT && begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(!rest.windows(4).any(|bytes| bytes == b"HTTP"), "no client got an answer");
}

#[test]
fn a_kept_connection_has_its_own_time() {
    let endpoint = Endpoint::start_with(|config| config.limits.idle = 5 * SHORT);
    let signed = sign(&endpoint.root, "HEAD", "/wire", "", &[], EMPTY);
    let mut stream = endpoint.connect();
    for _ in 0..3 {
        stream.write_all(head("HEAD", "/wire", "", &signed.headers, 0).as_bytes()).unwrap();
        assert_eq!(receive(&mut stream, "HEAD").status, 200);
        std::thread::sleep(SHORT / 4);
    }
    let idle = Instant::now();
    assert!(closes(&mut stream));
    assert!(idle.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_body_that_stops_is_refused_whoever_reads_it() {
    let endpoint = Endpoint::start_with(|config| config.limits.body_stall = SHORT);
    for (method, path, query) in [("PUT", "/wire/k", ""), ("POST", "/wire", "delete=")] {
        for length in [100_usize, 1 << 20] {
            let headers = [("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")];
            let signed = sign(&endpoint.root, method, path, query, &headers, "UNSIGNED-PAYLOAD");
            let mut stream = endpoint.connect();
            stream.write_all(head(method, path, query, &signed.headers, length).as_bytes()).unwrap();
            // The server may refuse before the body arrives; only its answer counts.
            let _ = stream.write_all(&vec![b' '; length / 2]);
            let refused = receive(&mut stream, method);
            assert_eq!((refused.status, refused.code().as_str()), (400, "RequestTimeout"), "{method} {length}");
            assert_eq!(refused.header("connection"), Some("close"));
            assert!(closes(&mut stream));
        }
    }
    assert_eq!(endpoint.send("HEAD", "/wire/k", "", &[], b"").status, 404);
}

#[test]
fn an_answer_nobody_takes_is_cut_off_and_one_that_is_taken_slowly_is_not() {
    let endpoint = Endpoint::start_with(|config| {
        config.limits.answer_stall = 5 * SHORT;
        config.limits.idle = 5 * SHORT;
    });
    // More than the socket buffers of both ends hold.
    let content = vec![7; 48 << 20];
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], &content).code(), "OK");
    let get = || {
        let signed = sign(&endpoint.root, "GET", "/wire/k", "", &[], EMPTY);
        let mut stream = endpoint.connect();
        stream.write_all(head("GET", "/wire/k", "", &signed.headers, 0).as_bytes()).unwrap();
        stream
    };
    let mut never = get();
    let (mut slow, mut taken) = (get(), 0);
    let mut buffer = vec![0; 8 << 20];
    while taken < content.len() {
        std::thread::sleep(SHORT / 2);
        let mut left = buffer.len();
        while left > 0 {
            match slow.read(&mut buffer[..left]).unwrap() {
                0 => panic!("cut off after {taken} bytes"),
                read => {
                    left -= read;
                    taken += read;
                }
            }
            if taken >= content.len() {
                break;
            }
        }
    }
    std::thread::sleep(6 * SHORT);
    let (mut rest, begun) = (Vec::new(), Instant::now());
    let _ = never.read_to_end(&mut rest);
    assert!(rest.len() < content.len() && begun.elapsed() < Duration::from_secs(10), "{} bytes", rest.len());
}

#[test]
fn idle_connections_give_way_to_new_ones() {
    let endpoint = Endpoint::start_with(|config| config.limits.connections = 300);
    let mut idle = vec![endpoint.connect()];
    // Connections that arrive together have no order. After this pause the first one is the longest idle.
    std::thread::sleep(SHORT);
    idle.extend((1..300).map(|_| endpoint.connect()));
    for number in 0..20 {
        assert_eq!(endpoint.send("PUT", &format!("/wire/{number}"), "", &[], b"1").code(), "OK");
    }
    assert!(closes(&mut idle[0]), "the longest idle connection is closed first");
    let signed = sign(&endpoint.root, "HEAD", "/wire/0", "", &[], EMPTY);
    let last = idle.last_mut().unwrap();
    last.write_all(head("HEAD", "/wire/0", "", &signed.headers, 0).as_bytes()).unwrap();
    assert_eq!(receive(last, "HEAD").status, 200, "the most recent connection stays open");
}

#[test]
fn half_a_head_gives_its_place_up_at_once() {
    let endpoint = Endpoint::start_with(|config| config.limits.connections = 2);
    let signed = sign(&endpoint.root, "HEAD", "/wire", "", &[], EMPTY);
    let whole = head("HEAD", "/wire", "", &signed.headers, 0);
    let begin = |sent: &[u8]| {
        let mut stream = endpoint.connect();
        stream.write_all(sent).unwrap();
        stream
    };
    let mut after_a_request = begin(whole.as_bytes());
    assert_eq!(receive(&mut after_a_request, "HEAD").status, 200);
    after_a_request.write_all(b"GET / HTTP/1.1\r\nhost: a").unwrap();
    let mut held = vec![after_a_request, begin(b"GET / HTTP/1.1\r\nhost: a")];
    std::thread::sleep(SHORT);
    for round in 0..6 {
        let asked = Instant::now();
        assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK", "round {round}");
        assert!(asked.elapsed() < 2 * SHORT, "round {round}: {:?}", asked.elapsed());
        // The closed client connects again.
        held.push(begin(b"PUT /wire/k HTTP/1.1\r\nhost: a\r\nx-a: "));
        std::thread::sleep(SHORT / 4);
    }
    assert!(closes(&mut held[0]) && closes(&mut held[1]));
}

#[test]
fn the_longest_idle_gives_way_also_after_it_was_looked_at() {
    let endpoint = Endpoint::start_with(|config| {
        config.limits.connections = 2;
        config.limits.head = 5 * SHORT;
    });
    let signed = sign(&endpoint.root, "HEAD", "/wire", "", &[], EMPTY);
    let answered = |stream: &mut TcpStream| {
        stream.write_all(head("HEAD", "/wire", "", &signed.headers, 0).as_bytes()).unwrap();
        assert_eq!(receive(stream, "HEAD").status, 200);
    };
    let mut first = endpoint.connect();
    answered(&mut first);
    std::thread::sleep(3 * SHORT);
    let mut second = endpoint.connect();
    answered(&mut second);
    // The time limit of the first request head passes for the first connection only.
    std::thread::sleep(3 * SHORT);
    answered(&mut endpoint.connect());
    assert!(closes(&mut first), "the connection that is idle for longer is closed");
    answered(&mut second);
}

#[test]
fn one_too_many_is_told_to_come_again() {
    let endpoint = Endpoint::start_with(|config| config.limits.connections = 2);
    let content = vec![7; 1000];
    let signed = sign(&endpoint.root, "PUT", "/wire/k", "", &[EXPECT], &sha256(&content));
    let mut busy: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = endpoint.connect();
            stream.write_all(head("PUT", "/wire/k", "", &signed.headers, content.len()).as_bytes()).unwrap();
            goes_on(&mut stream);
            stream.write_all(&content[..500]).unwrap();
            stream
        })
        .collect();
    let told = endpoint.send("GET", "/wire/k", "", &[], b"");
    assert_eq!((told.status, told.code().as_str()), (503, "SlowDown"));
    assert_eq!((told.header("connection"), told.header("retry-after")), (Some("close"), Some("1")));
    let told = endpoint.block_on(async {
        let client = Client::new(tokio::net::TcpStream::connect(endpoint.address).await.unwrap()).await;
        client.send(&endpoint.root, "GET", "/wire/k", b"").await
    });
    assert_eq!(told.0, 503, "HTTP/2 clients get 503 as well");
    busy[0].write_all(&content[500..]).unwrap();
    assert_eq!(receive(&mut busy[0], "PUT").code(), "OK");
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, content);
    busy[1].write_all(&content[500..]).unwrap();
    assert_eq!(receive(&mut busy[1], "PUT").code(), "OK");
}
