//! Requests and answers of HTTP/1.1, as much as an S3 client needs.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use bytes::Bytes;

use super::answer::answer;
use super::{BUCKET, Fault, Seen, Shared};

const BODY_MAX: usize = 256 << 20;

/// A request.
pub(super) struct Request {
    pub method: String,
    pub bucket: String,
    pub key: String,
    pub query: HashMap<String, String>,
    pub headers: HashMap<String, String>,
    pub body: Bytes,
}

/// An answer. `length` is what Content-Length says, if it is not that of the body, as for HEAD.
#[derive(Default)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub length: Option<usize>,
}

/// Serves one connection until it ends.
pub(super) fn serve(stream: &TcpStream, shared: &Arc<Shared>) {
    let mut reader = BufReader::new(stream);
    while let Some((request, raw_query)) = read(&mut reader, stream) {
        let seen = {
            let mut all = shared.seen.lock();
            let number = all.len() as u64;
            let (method, key) = (request.method.clone(), request.key.clone());
            all.push(Seen { number, method, key, query: raw_query });
            all[all.len() - 1].clone()
        };
        let choose = shared.choose.lock().clone();
        let fault = choose.and_then(|choose| choose(&seen));
        if respond(stream, shared, &request, fault).is_none() {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Does a request and answers it; `None` if the connection has to end.
fn respond(mut stream: &TcpStream, shared: &Arc<Shared>, request: &Request, fault: Option<Fault>) -> Option<()> {
    let mut answer = match fault {
        Some(Fault::Status(status)) => failure(status),
        Some(Fault::Hang(time)) => {
            std::thread::sleep(time);
            return None;
        }
        _ if request.bucket != BUCKET => named_failure(404, "NoSuchBucket"),
        _ => answer(shared, request),
    };
    let full = answer.length.unwrap_or(answer.body.len());
    let (body, length) = match fault {
        Some(Fault::LoseAnswer) => return None,
        Some(Fault::CutBody) => (answer.body.slice(..answer.body.len() / 2), full),
        Some(Fault::Shorten) => {
            let short = answer.body.slice(..answer.body.len().saturating_sub(1));
            let length = short.len();
            (short, length)
        }
        Some(Fault::ChangeByte) if !answer.body.is_empty() => {
            let mut changed = answer.body.to_vec();
            let middle = changed.len() / 2;
            changed[middle] ^= 1;
            (changed.into(), full)
        }
        _ => (std::mem::take(&mut answer.body), full),
    };
    let mut head = format!("HTTP/1.1 {} Answer\r\ncontent-length: {length}\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    if request.method != "HEAD" {
        stream.write_all(&body).ok()?;
    }
    (fault != Some(Fault::CutBody)).then_some(())
}

/// An error without a special code.
pub(super) fn failure(status: u16) -> Answer {
    let code = match status {
        503 => "SlowDown",
        403 => "AccessDenied",
        404 => "NoSuchKey",
        412 => "PreconditionFailed",
        _ => "InternalError",
    };
    named_failure(status, code)
}

pub(super) fn named_failure(status: u16, code: &str) -> Answer {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as the test wants</Message></Error>");
    Answer { status, body: body.into(), ..Answer::default() }
}

fn read(reader: &mut BufReader<&TcpStream>, mut stream: &TcpStream) -> Option<(Request, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.get("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let length: usize = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    let mut body = vec![0; length.min(BODY_MAX)];
    reader.read_exact(&mut body).ok()?;
    if headers.contains_key("x-amz-decoded-content-length") {
        body = unchunk(&body)?;
    }
    let (path, raw) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let query = raw.split('&').filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_owned(), decode(value))
    });
    let (bucket, key, query) = (bucket.to_owned(), decode(key), query.collect());
    Some((Request { method, bucket, key, query, headers, body: body.into() }, raw.to_owned()))
}

/// The content of a body in `aws-chunked` encoding; signatures and trailers are ignored.
fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&body[..end]).ok()?.split(';').next()?.to_owned();
        let size = usize::from_str_radix(&size, 16).ok()?;
        if size == 0 {
            return Some(all);
        }
        all.extend_from_slice(body.get(end + 2..end + 2 + size)?);
        body = body.get(end + 2 + size + 2..)?;
    }
}

fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten().and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
