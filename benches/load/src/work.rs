//! The requests of each operation.

use std::io::Write as _;
use std::net::TcpStream;

use crate::client::Client;
use crate::clock;
use crate::options::Options;
use crate::sign::{Signer, Unsigned};

/// The length of the unique blocks of a body.
const PIECE: usize = 64 * 1024;
/// The length of a signed chunk.
const CHUNK: usize = 64 * 1024;
/// The number of keys with one common prefix.
const FOLDERS: u64 = 100;

/// The result of a request: items and bytes.
pub struct Step {
    pub items: u64,
    pub bytes: u64,
}

/// A running client.
pub struct Work<'a> {
    options: &'a Options,
    client: Client,
    piece: Vec<u8>,
}

/// The parts of a request that differ.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    content: &'a str,
    /// The length of a body whose chunks are signed.
    decoded: Option<usize>,
    headers: String,
}

impl<'a> Work<'a> {
    /// A client with its own random bytes.
    pub fn new(options: &'a Options) -> Self {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let piece = (0..PIECE / 8).flat_map(|_| next().to_le_bytes()).collect();
        Self { options, client: Client::new(&options.endpoint), piece }
    }

    /// Sends request `number` of all clients.
    pub fn step(&mut self, number: u64) -> Result<Step, String> {
        let options = self.options;
        match options.operation.as_str() {
            "make-bucket" => self.plain("PUT", &format!("/{}", options.bucket), ""),
            "put" => self.put(number),
            "put-signed" => self.put_signed(number),
            "get" => self.get(number % options.keys),
            "delete" => self.plain("DELETE", &self.path(number), ""),
            "list" => self.list(""),
            "list-prefixes" => self.list("delimiter=%2F&"),
            other => Err(format!("unknown operation {other}")),
        }
    }

    fn path(&self, number: u64) -> String {
        let Options { bucket, prefix, .. } = self.options;
        format!("/{bucket}/{prefix}{:02}/{number:07}", number % FOLDERS)
    }

    fn send(
        &mut self,
        request: &Request<'_>,
        body: impl FnOnce(&mut TcpStream, &Signer, &str, String) -> std::io::Result<()>,
        keep: bool,
    ) -> Result<u64, String> {
        let Request { method, path, query, content, decoded, headers } = request;
        let Options { endpoint: host, key, secret, region, .. } = self.options;
        let stamp = clock::now();
        let signer = Signer::new(key, secret, region, &stamp);
        let (authorization, signature) =
            signer.sign(&Unsigned { method, path, query, host, content, stamp: &stamp, decoded: *decoded });
        let target = if query.is_empty() { (*path).to_owned() } else { format!("{path}?{query}") };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {host}\r\nx-amz-date: {stamp}\r\nx-amz-content-sha256: {content}\r\n\
             authorization: {authorization}\r\n{headers}\r\n"
        );
        let (status, length) = self.client.send(&head, |stream| body(stream, &signer, &stamp, signature), keep)?;
        match status {
            200..=299 => Ok(length),
            _ => {
                let said = String::from_utf8_lossy(&self.client.answer);
                Err(format!("{method} {target}: {status} {}", said.chars().take(200).collect::<String>()))
            }
        }
    }

    fn plain(&mut self, method: &str, path: &str, query: &str) -> Result<Step, String> {
        let headers = if method == "PUT" { "content-length: 0\r\n".to_owned() } else { String::new() };
        let request = Request { method, path, query, content: "UNSIGNED-PAYLOAD", decoded: None, headers };
        self.send(&request, |_, _, _, _| Ok(()), true).map(|_| Step { items: 1, bytes: 0 })
    }

    fn put(&mut self, number: u64) -> Result<Step, String> {
        let (path, size, mut piece) = (self.path(number), self.options.size, std::mem::take(&mut self.piece));
        let headers = format!("content-length: {size}\r\n");
        let request =
            Request { method: "PUT", path: &path, query: "", content: "UNSIGNED-PAYLOAD", decoded: None, headers };
        let sent = self.send(
            &request,
            |stream, _, _, _| each_piece(&mut piece, number, size, |data| stream.write_all(data)),
            false,
        );
        self.piece = piece;
        sent.map(|_| Step { items: 1, bytes: size as u64 })
    }

    /// A PUT with a signature before each chunk (SigV4, `STREAMING-AWS4-HMAC-SHA256-PAYLOAD`).
    fn put_signed(&mut self, number: u64) -> Result<Step, String> {
        let (path, size, mut piece) = (self.path(number), self.options.size, std::mem::take(&mut self.piece));
        let frame = |bytes: usize| format!("{bytes:x};chunk-signature=").len() + 64 + 2 + bytes + 2;
        let last = if size.is_multiple_of(CHUNK) { 0 } else { frame(size % CHUNK) };
        let framed = size / CHUNK * frame(CHUNK) + last + frame(0);
        let headers = format!(
            "content-length: {framed}\r\nx-amz-decoded-content-length: {size}\r\ncontent-encoding: aws-chunked\r\n"
        );
        let content = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        let request = Request { method: "PUT", path: &path, query: "", content, decoded: Some(size), headers };
        let body = |stream: &mut TcpStream, signer: &Signer, stamp: &str, mut signature: String| {
            let mut send = |data: &[u8]| {
                signature = signer.sign_chunk(stamp, &signature, data);
                let mut chunk = format!("{:x};chunk-signature={signature}\r\n", data.len()).into_bytes();
                chunk.extend_from_slice(data);
                chunk.extend_from_slice(b"\r\n");
                stream.write_all(&chunk)
            };
            each_piece(&mut piece, number, size, &mut send)?;
            send(&[])
        };
        let sent = self.send(&request, body, false);
        self.piece = piece;
        sent.map(|_| Step { items: 1, bytes: size as u64 })
    }

    fn get(&mut self, number: u64) -> Result<Step, String> {
        let path = self.path(number);
        let request = Request {
            method: "GET",
            path: &path,
            query: "",
            content: "UNSIGNED-PAYLOAD",
            decoded: None,
            headers: String::new(),
        };
        let bytes = self.send(&request, |_, _, _, _| Ok(()), false)?;
        Ok(Step { items: 1, bytes })
    }

    /// Lists all keys page by page; with a delimiter, one page of common prefixes.
    fn list(&mut self, delimiter: &str) -> Result<Step, String> {
        let path = format!("/{}", self.options.bucket);
        let prefix = self.options.prefix.replace('/', "%2F");
        let (mut token, mut items, mut bytes) = (String::new(), 0, 0);
        loop {
            let query = format!("{token}{delimiter}list-type=2&prefix={prefix}");
            let request = Request {
                method: "GET",
                path: &path,
                query: &query,
                content: "UNSIGNED-PAYLOAD",
                decoded: None,
                headers: String::new(),
            };
            bytes += self.send(&request, |_, _, _, _| Ok(()), true)?;
            let page = String::from_utf8_lossy(&self.client.answer);
            items += (page.matches("<Key>").count() + page.matches("<CommonPrefixes>").count()) as u64;
            match text_of(&page, "NextContinuationToken") {
                Some(next) => token = format!("continuation-token={}&", encoded(next)),
                None => return Ok(Step { items, bytes }),
            }
        }
    }
}

/// Passes `size` bytes to `send` in pieces that all differ.
fn each_piece(
    piece: &mut [u8],
    number: u64,
    size: usize,
    mut send: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    for (at, from) in (0..size).step_by(PIECE).enumerate() {
        piece[..8].copy_from_slice(&number.to_le_bytes());
        piece[8..16].copy_from_slice(&(at as u64).to_le_bytes());
        send(&piece[..PIECE.min(size - from)])?;
    }
    Ok(())
}

fn text_of<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let from = xml.split_once(&format!("<{name}>"))?.1;
    Some(from.split_once("</")?.0)
}

/// Encodes a continuation token from XML for a query. Of XML's entities a token contains at most `&amp;`.
fn encoded(text: &str) -> String {
    let text = text.replace("&amp;", "&");
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
