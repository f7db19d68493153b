//! An HTTP/1.1 client with one kept-alive connection; it implements what S3 servers use.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// The timeout of reads and writes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client; it connects at the first request.
pub struct Client {
    endpoint: String,
    connection: Option<BufReader<TcpStream>>,
    /// The body of the last answer, if it was kept.
    pub answer: Vec<u8>,
}

/// How the body of an answer is delimited.
enum Framing {
    Length(u64),
    Chunks,
}

impl Client {
    /// A client of `endpoint`, `host:port`.
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.into(), connection: None, answer: Vec::new() }
    }

    /// Sends a head and the bytes that `body` writes, and reads the answer, into [`Client::answer`] if `keep` is set.
    /// Returns status and length.
    pub fn send(
        &mut self,
        head: &str,
        body: impl FnOnce(&mut TcpStream) -> std::io::Result<()>,
        keep: bool,
    ) -> Result<(u16, u64), String> {
        let result = self.exchange(head, body, keep);
        if result.is_err() {
            self.connection = None;
        }
        result.map_err(|error| error.to_string())
    }

    fn exchange(
        &mut self,
        head: &str,
        body: impl FnOnce(&mut TcpStream) -> std::io::Result<()>,
        keep: bool,
    ) -> std::io::Result<(u16, u64)> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.endpoint)?),
        };
        connection.get_mut().write_all(head.as_bytes())?;
        body(connection.get_mut())?;
        let (status, framing, ends) = read_head(connection)?;
        self.answer.clear();
        let keep = (keep || status >= 300).then_some(&mut self.answer);
        let length = read_body(connection, &framing, keep)?;
        if ends {
            self.connection = None;
        }
        Ok((status, length))
    }
}

fn connect(endpoint: &str) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(endpoint)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(BufReader::with_capacity(256 * 1024, stream))
}

fn broken(what: &str) -> std::io::Error {
    std::io::Error::other(what.to_owned())
}

fn read_line(connection: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    if connection.read_line(&mut line)? == 0 {
        return Err(broken("the connection ended within an answer"));
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Reads a head: status, framing of the body, and whether the connection ends after it.
fn read_head(connection: &mut BufReader<TcpStream>) -> std::io::Result<(u16, Framing, bool)> {
    let first = read_line(connection)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| broken("an answer has no status"))?;
    let (mut framing, mut ends) = (Framing::Length(0), false);
    loop {
        let line = read_line(connection)?.to_ascii_lowercase();
        let Some((name, value)) = line.split_once(':') else { return Ok((status, framing, ends)) };
        match (name, value.trim()) {
            ("content-length", length) => {
                framing = Framing::Length(length.parse().map_err(|_| broken("an answer has no length"))?);
            }
            ("transfer-encoding", "chunked") => framing = Framing::Chunks,
            ("connection", "close") => ends = true,
            _ => {}
        }
    }
}

fn read_body(
    connection: &mut BufReader<TcpStream>,
    framing: &Framing,
    mut keep: Option<&mut Vec<u8>>,
) -> std::io::Result<u64> {
    let length = match framing {
        Framing::Length(length) => *length,
        Framing::Chunks => {
            let mut all = 0;
            loop {
                let line = read_line(connection)?;
                let size = line.split(';').next().and_then(|size| u64::from_str_radix(size, 16).ok());
                let size = size.ok_or_else(|| broken("a chunk has no size"))?;
                read_exactly(connection, size, keep.as_deref_mut())?;
                read_line(connection)?;
                if size == 0 {
                    return Ok(all);
                }
                all += size;
            }
        }
    };
    read_exactly(connection, length, keep)?;
    Ok(length)
}

fn read_exactly(connection: &mut BufReader<TcpStream>, length: u64, keep: Option<&mut Vec<u8>>) -> std::io::Result<()> {
    let mut part = connection.take(length);
    let read = match keep {
        Some(kept) => part.read_to_end(kept)? as u64,
        None => std::io::copy(&mut part, &mut std::io::sink())?,
    };
    if read == length { Ok(()) } else { Err(broken("the connection ended within an answer")) }
}
