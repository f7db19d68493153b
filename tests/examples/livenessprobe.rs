//! Stands in for livenessprobe, which is not published as a Go module: answers `/healthz` by the driver's Probe.
//!
//! A lab runs it under the chart's arguments: `--csi-address=PATH --health-port=PORT`. Others are ignored.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use proto::csi::v1::ProbeRequest;
use proto::csi::v1::identity_client::IdentityClient;
use tonic::transport::Endpoint;

/// How long the driver may take, as with the released program.
const LIMIT: Duration = Duration::from_secs(1);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let argument = |name: &str| std::env::args().find_map(|word| word.strip_prefix(name).map(str::to_owned));
    let socket = argument("--csi-address=").ok_or("--csi-address is missing")?;
    let port = argument("--health-port=").unwrap_or_else(|| "9808".to_owned()).parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for connection in TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?.incoming() {
        let ready = runtime.block_on(async { tokio::time::timeout(LIMIT, probe(&socket)).await });
        let status = match ready {
            Ok(Ok(())) => "200 OK",
            Ok(Err(_)) | Err(_) => "500 Internal Server Error",
        };
        // A client that went away is not our failure.
        let _ = connection.and_then(|connection| answer(connection, status));
    }
    Ok(())
}

async fn probe(socket: &str) -> Result<(), Failure> {
    let channel = Endpoint::from_shared(format!("unix://{socket}"))?.connect().await?;
    let answer = IdentityClient::new(channel).probe(ProbeRequest {}).await?.into_inner();
    if answer.ready == Some(false) { Err("the driver is not ready".into()) } else { Ok(()) }
}

fn answer(connection: TcpStream, status: &str) -> std::io::Result<()> {
    connection.set_read_timeout(Some(LIMIT))?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let length = "Content-Length: 0\r\nConnection: close\r\n\r\n";
    write!(reader.get_mut(), "HTTP/1.1 {status}\r\n{length}")
}
