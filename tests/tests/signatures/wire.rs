//! A request as bytes on a socket, and its response.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// The time limit of an answer, far above the usual time.
const LIMIT: Duration = Duration::from_secs(20);

/// A request that is sent exactly as it is.
#[derive(Clone, Debug)]
pub struct Wire {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The `content-length`, if it is not that of the body.
    pub length: Option<usize>,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The S3 error code; empty if there is none, as for HEAD.
    pub code: String,
    pub text: String,
}

impl Wire {
    /// Appends a parameter and encodes its value.
    pub fn add_query(&mut self, name: &str, value: &str) {
        let separator = if self.query.is_empty() { "" } else { "&" };
        let value = encode(value);
        self.query = format!("{}{separator}{name}={value}", self.query);
    }

    /// The parameters, still encoded.
    pub fn params(&self) -> Vec<(&str, &str)> {
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect()
    }

    /// The request with these parameters in place of its own.
    pub fn with_params(&self, params: &[(&str, &str)]) -> Self {
        let pairs: Vec<_> = params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self { query: pairs.join("&"), ..self.clone() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The request with another value of a header, which it must have.
    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        let found = self.headers.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("there is no {name} to change")).1 = value.into();
        self
    }

    /// The request with one more header, even if it has one of that name.
    pub fn and_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self
    }

    /// Sends the request on a new connection and reads the whole answer.
    pub fn send(&self, address: &str) -> Answer {
        let mut socket = TcpStream::connect(address).expect("the server accepts");
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        socket.set_write_timeout(Some(LIMIT)).expect("a timeout");
        let mut bytes = self.head().into_bytes();
        bytes.extend(&self.body);
        // A server that refuses early closes before it has read everything; its answer can still be read.
        if socket.write_all(&bytes).is_ok() && self.length.is_some() {
            let _ = socket.shutdown(Shutdown::Write);
        }
        let mut answer = Vec::new();
        match socket.read_to_end(&mut answer) {
            Err(error) if answer.is_empty() || error.kind() != ErrorKind::ConnectionReset => {
                panic!("no answer to {} {}: {error}", self.method, self.path)
            }
            _ => Answer::parse(&answer),
        }
    }

    fn head(&self) -> String {
        let separator = if self.query.is_empty() { "" } else { "?" };
        let mut head = format!("{} {}{separator}{} HTTP/1.1\r\n", self.method, self.path, self.query);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let length = self.length.unwrap_or(self.body.len());
        head + &format!("content-length: {length}\r\nconnection: close\r\n\r\n")
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let message = self.text.split_once("<Message>").and_then(|(_, rest)| rest.split_once("</Message>"));
        write!(f, "{} {} {}", self.status, self.code, message.map_or("", |(message, _)| message))
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        let code = code.map(|(code, _)| code.to_owned()).unwrap_or_default();
        Self { status: status.unwrap_or_else(|| panic!("not an answer: {text:?}")), code, text }
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986, as Signature Version 4 requires.
pub fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
