//! The TCP ports of a server, which are bound before its store is opened.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use tokio::net::TcpListener;

use super::wiring;
use crate::config::Settings;
use crate::failure::Failure;
use crate::process::PassedSockets;

/// The TCP listeners, bound and not yet served.
pub(super) struct Ports {
    /// The TLS certificate of S3, if any.
    pub(super) tls: Option<s3::Tls>,
    pub(super) s3: TcpListener,
    pub(super) s3_address: SocketAddr,
    pub(super) http: TcpListener,
    pub(super) http_address: SocketAddr,
    pub(super) website: Option<(TcpListener, SocketAddr)>,
    pub(super) volume: Option<(TcpListener, SocketAddr)>,
}

impl Ports {
    /// Binds all of them; `http` is bound already.
    pub(super) async fn bind(
        settings: &Settings,
        (http, http_address): (TcpListener, SocketAddr),
        passed: &mut PassedSockets,
    ) -> Result<Self, Failure> {
        let tls = wiring::tls(settings).await?;
        let (s3, s3_address) = open("s3", settings.s3_listen, passed).await?;
        let website = match settings.website_listen {
            Some(address) => Some(open("website", address, passed).await?),
            None => None,
        };
        let volume = match &settings.volumes {
            Some(volumes) => Some(open("volume", volumes.listen, passed).await?),
            None => None,
        };
        Ok(Self { tls, s3, s3_address, http, http_address, website, volume })
    }

    /// The URL of S3 at its bound address.
    pub(super) fn s3_url(&self) -> String {
        self.url(self.s3_address)
    }

    /// The URL of websites at the bound address, where they are served.
    pub(super) fn website_url(&self) -> Option<String> {
        self.website.as_ref().map(|(_, address)| self.url(*address))
    }

    fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }
}

/// The port for metrics and health, which a standby serves too.
pub(super) async fn http(
    settings: &Settings,
    passed: &mut PassedSockets,
) -> Result<(TcpListener, SocketAddr), Failure> {
    open("http", settings.http_listen, passed).await
}

/// The listener of the flag `--NAME-listen`: inherited, or newly bound.
async fn open(
    name: &str,
    address: SocketAddr,
    passed: &mut PassedSockets,
) -> Result<(TcpListener, SocketAddr), Failure> {
    let opened = match passed.socket(name).and_then(|socket| inherited(socket, address)) {
        Some(inherited) => inherited,
        None => bind(&format!("--{name}-listen"), address).await?,
    };
    passed.keep(name, &opened.0);
    Ok(opened)
}

/// An inherited socket that already listens at the address.
fn inherited(socket: OwnedFd, address: SocketAddr) -> Option<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::from(socket);
    let bound = listener.local_addr().ok()?;
    let fits = bound == address || (address.port() == 0 && bound.ip() == address.ip());
    listener.set_nonblocking(true).ok()?;
    fits.then(|| TcpListener::from_std(listener).ok()).flatten().map(|listener| (listener, bound))
}

/// Binds an address; with port 0 the bound address differs.
async fn bind(flag: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = match TcpListener::bind(address).await {
        Ok(listener) => listener.local_addr().map(|bound| (listener, bound)),
        Err(error) => Err(error),
    };
    bound.map_err(|error| {
        let variable = flag.trim_start_matches('-').replace('-', "_").to_uppercase();
        Failure::failed(format!(
            "{address} cannot be served ({error}): stop the program that uses it, or name another with {flag} or AMPHORA_{variable}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_named_with_its_flag() {
        let (_held, address) = bind("--s3-listen", "127.0.0.1:0".parse().expect("an address")).await.expect("bound");
        let text = bind("--s3-listen", address).await.expect_err("in use").to_string();
        assert!(text.contains(&address.to_string()) && text.contains("--s3-listen"), "{text}");
        assert!(text.contains("AMPHORA_S3_LISTEN"), "{text}");
    }
}
