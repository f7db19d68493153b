//! The certificate of the volume listener: given by files, or issued by the store's own authority.
//!
//! - The authority's certificate is `volume-ca.pem` in the data folder; nodes trust it. What it issues holds for the
//!   store's own name, which does not depend on its address, for this machine's host name, and for the address of the
//!   listener.
//! - It is replaced while the listener runs: an issued one before it expires, given files when they change.
//!
//! A crash leaves the authority's files as they were; an issued certificate is only in memory.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use node_certificate::Authority;
use node_wire::tls::{Acceptor, Pair, STORE_NAME};
use objstore::clock::{Clock as _, SystemClock, Timestamp};
use objstore::disk::{RealDisk, read_named};

use crate::config::TlsFiles;
use crate::failure::{Failure, with_causes};

/// How often files are looked at, and the expiry of an issued certificate.
const LOOK: Duration = Duration::from_secs(60);
/// The largest file of a certificate or key.
const FILE_MAX: u64 = 1 << 20;

/// What the listener shows, and its replacement. Reads files: not for async threads.
pub struct Certificate {
    source: Source,
    acceptor: Acceptor,
}

enum Source {
    Files(TlsFiles, FileContent),
    Issued { authority: Box<Authority>, names: Vec<String>, renewal: Timestamp },
}

/// Files as they were read.
#[derive(PartialEq, Eq)]
struct FileContent {
    chain: Vec<u8>,
    key: zeroize::Zeroizing<Vec<u8>>,
}

impl Certificate {
    /// The certificate of these files; without files, one of the authority in the data folder, which is made there if
    /// there is none.
    ///
    /// # Errors
    /// What cannot be read, used or written.
    pub fn open(files: Option<TlsFiles>, data_dir: &Path, address: SocketAddr) -> Result<Self, Failure> {
        match files {
            Some(files) => {
                let read = FileContent::load(&files).map_err(|why| given(&why))?;
                let acceptor = Acceptor::new(read.pair(), None).map_err(|error| given(&with_causes(&error)))?;
                Ok(Self { source: Source::Files(files, read), acceptor })
            }
            None => {
                let own = |error| Failure::failed(format!("--volume-listen: {}", with_causes(&error)));
                let now = SystemClock.now();
                let authority = Authority::open(&RealDisk::new(), data_dir, now).map_err(own)?;
                let names = names(address);
                let issued = authority.issue(&names, now).map_err(own)?;
                let pair = Pair { chain_pem: issued.chain_pem.as_bytes(), key_pem: issued.key_pem.as_bytes() };
                let acceptor = Acceptor::new(pair, None).map_err(|error| Failure::failed(with_causes(&error)))?;
                Ok(Self {
                    source: Source::Issued { authority: Box::new(authority), names, renewal: issued.renewal },
                    acceptor,
                })
            }
        }
    }

    /// What accepts connections with the certificate; a cheap handle.
    pub fn acceptor(&self) -> Acceptor {
        self.acceptor.clone()
    }

    /// Replaces the certificate whenever that is due, until the task is ended.
    pub async fn keep_current(mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let looked = tokio::task::spawn_blocking(move || {
                if let Err(why) = self.look(SystemClock.now()) {
                    tracing::error!(
                        why,
                        "the certificate of the volume listener was not replaced; the old one stays in use"
                    );
                }
                self
            });
            self = match looked.await {
                Ok(certificate) => certificate,
                Err(_) => return,
            };
        }
    }

    fn look(&mut self, now: Timestamp) -> Result<(), String> {
        match &mut self.source {
            Source::Files(files, known) => {
                let read = FileContent::load(files)?;
                if read != *known {
                    self.acceptor.replace(read.pair(), None).map_err(|error| with_causes(&error))?;
                    tracing::info!(file = %files.certificate.display(), "the volume listener shows its new certificate");
                    *known = read;
                }
            }
            Source::Issued { authority, names, renewal } if now >= *renewal => {
                let issued = authority.issue(names, now).map_err(|error| with_causes(&error))?;
                let pair = Pair { chain_pem: issued.chain_pem.as_bytes(), key_pem: issued.key_pem.as_bytes() };
                self.acceptor.replace(pair, None).map_err(|error| with_causes(&error))?;
                *renewal = issued.renewal;
            }
            Source::Issued { .. } => {}
        }
        Ok(())
    }
}

fn given(why: &str) -> Failure {
    Failure::failed(format!("--volume-cert, --volume-key: {why}"))
}

impl FileContent {
    fn load(files: &TlsFiles) -> Result<Self, String> {
        let read = |path: &Path| {
            read_named(path, FILE_MAX).map_err(|error| format!("{} cannot be read: {error}", path.display()))
        };
        let (chain, _) = read(&files.certificate)?;
        let (key, permissions) = read(&files.key)?;
        permissions.of_a_secret().map_err(|why| format!("{} {why}", files.key.display()))?;
        Ok(Self { chain, key: zeroize::Zeroizing::new(key) })
    }

    fn pair(&self) -> Pair<'_> {
        Pair { chain_pem: &self.chain, key_pem: &self.key }
    }
}

/// The names of an issued certificate.
fn names(address: SocketAddr) -> Vec<String> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names = vec![STORE_NAME.to_owned(), "localhost".to_owned()];
    let is_dns = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    };
    if is_dns(&host) && host != "localhost" {
        names.push(host);
    }
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    names
}
