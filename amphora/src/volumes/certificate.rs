//! The certificate of the volume listener: given by files, or issued by the store's own authority.
//!
//! - The authority's certificate is `volume-ca.pem` in the data folder; nodes trust it. With metadata in PostgreSQL the
//!   original is in the metadata, with its sealed key, and the file is a copy. What it issues holds for the store's own name, which does not depend on its address, for this machine's host name, and for the address of the
//!   listener.
//! - It is replaced while the listener runs: an issued one before it expires, given files when they change. So is the
//!   authority whose certificates nodes have to show. Connections that are open stay as they were admitted.
//!
//! A crash leaves the authority as it was, in files or in the metadata; an issued certificate is only in memory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use node_certificate::Authority;
use node_wire::tls::{Acceptor, Pair, STORE_NAME};
use objstore::Store;
use objstore::clock::{Clock as _, SystemClock, Timestamp};
use objstore::disk::{Disk as _, RealDisk};
use objstore::store::{Secret, VolumeAuthority};

use crate::config::TlsFiles;
use crate::failure::{Failure, with_causes};
use crate::tls_pair::{self, FileContent};

/// How often files are looked at, and the expiry of an issued certificate.
const LOOK: Duration = Duration::from_secs(60);

/// What the listener shows and asks for, and its replacement. Reads files: not for async threads.
pub struct Certificate {
    source: Source,
    nodes: Option<Nodes>,
    acceptor: Acceptor,
}

enum Source {
    Files(TlsFiles, FileContent),
    Issued { authority: Box<Authority>, names: Vec<String>, renewal: Timestamp },
}

/// What keeps the store's own authority.
pub enum Keeper {
    /// The data folder.
    Folder(PathBuf),
    /// The metadata, with a copy of the certificate in the data folder.
    Metadata(Store, PathBuf),
}

impl Keeper {
    /// The authority; made if there is none.
    fn authority(&self, now: Timestamp) -> Result<Authority, Failure> {
        let own = |error| Failure::failed(format!("--volume-listen: {}", with_causes(&error)));
        match self {
            Self::Folder(data_dir) => Authority::open(&RealDisk::new(), data_dir, now).map_err(own),
            Self::Metadata(store, data_dir) => {
                let kept = |error| Failure::failed(format!("--volume-listen: {}; {INSTEAD}", with_causes(&error)));
                let VolumeAuthority { certificate, key } = match store.volume_authority().map_err(kept)? {
                    Some(kept) => kept,
                    None => store.keep_volume_authority(first(data_dir, now).map_err(own)?).map_err(kept)?,
                };
                let file = data_dir.join(node_certificate::CERTIFICATE_FILE);
                RealDisk::new().write_atomic(&file, certificate.as_bytes(), 0o644).map_err(kept)?;
                Authority::kept(key.reveal(), certificate).map_err(own)
            }
        }
    }
}

/// What helps where the metadata has no usable authority.
const INSTEAD: &str = "or give the listener a certificate with --volume-cert and --volume-key";

/// The first authority of metadata without one: that of the data folder, if nodes may trust one there already, as after a
/// move of the store to PostgreSQL.
fn first(data_dir: &Path, now: Timestamp) -> Result<VolumeAuthority, node_certificate::Error> {
    let made = match data_dir.join(node_certificate::KEY_FILE).exists() {
        true => Authority::open(&RealDisk::new(), data_dir, now)?,
        false => Authority::in_memory(now)?,
    };
    let key = Secret::new(made.key_pem().as_str());
    Ok(VolumeAuthority { certificate: made.certificate_pem().to_owned(), key })
}

/// The authority whose certificates nodes have to show.
struct Nodes {
    file: PathBuf,
    pem: Vec<u8>,
}

impl Nodes {
    fn load(file: PathBuf) -> Result<Self, Failure> {
        let failed = |why| Failure::failed(format!("--volume-client-ca: {why}"));
        let pem = tls_pair::read(&file).map_err(failed)?;
        Ok(Self { file, pem })
    }
}

/// The flags that an error of TLS is about.
fn given(files: &str, nodes: Option<&Nodes>, why: &str) -> Failure {
    match nodes {
        Some(_) => Failure::failed(format!("{files}, --volume-client-ca: {why}")),
        None => Failure::failed(format!("{files}: {why}")),
    }
}

impl Certificate {
    /// The certificate of these files; without files, one of the authority that the store keeps, which is made if there is
    /// none. With the file of an authority for nodes, each node has to show a certificate of it.
    ///
    /// # Errors
    /// What cannot be read, used or written.
    pub fn open(
        (files, client_ca): (Option<TlsFiles>, Option<PathBuf>),
        keeper: &Keeper,
        address: SocketAddr,
    ) -> Result<Self, Failure> {
        let nodes = client_ca.map(Nodes::load).transpose()?;
        let asked = nodes.as_ref().map(|nodes| &nodes.pem[..]);
        match files {
            Some(files) => {
                const FLAGS: &str = "--volume-cert, --volume-key";
                let read = FileContent::load(&files).map_err(|why| Failure::failed(format!("{FLAGS}: {why}")))?;
                let acceptor = Acceptor::new(read.pair(), asked);
                let acceptor = acceptor.map_err(|error| given(FLAGS, nodes.as_ref(), &with_causes(&error)))?;
                Ok(Self { source: Source::Files(files, read), nodes, acceptor })
            }
            None => {
                let own = |error| Failure::failed(format!("--volume-listen: {}", with_causes(&error)));
                let now = SystemClock.now();
                let authority = keeper.authority(now)?;
                let names = names(address);
                let issued = authority.issue(&names, now).map_err(own)?;
                let pair = Pair { chain_pem: issued.chain_pem.as_bytes(), key_pem: issued.key_pem.as_bytes() };
                let acceptor = Acceptor::new(pair, asked);
                let acceptor =
                    acceptor.map_err(|error| given("--volume-listen", nodes.as_ref(), &with_causes(&error)))?;
                let source = Source::Issued { authority: Box::new(authority), names, renewal: issued.renewal };
                Ok(Self { source, nodes, acceptor })
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
        let pem = self.nodes.as_ref().map(|nodes| tls_pair::read(&nodes.file)).transpose()?;
        let is_changed = pem.as_ref() != self.nodes.as_ref().map(|nodes| &nodes.pem);
        match &mut self.source {
            Source::Files(files, known) => {
                let read = FileContent::load(files)?;
                if is_changed || read != *known {
                    self.acceptor.replace(read.pair(), pem.as_deref()).map_err(|error| with_causes(&error))?;
                    tracing::info!(file = %files.certificate.display(), "the volume listener uses its new certificates");
                    *known = read;
                }
            }
            Source::Issued { authority, names, renewal } if is_changed || now >= *renewal => {
                let issued = authority.issue(names, now).map_err(|error| with_causes(&error))?;
                let pair = Pair { chain_pem: issued.chain_pem.as_bytes(), key_pem: issued.key_pem.as_bytes() };
                self.acceptor.replace(pair, pem.as_deref()).map_err(|error| with_causes(&error))?;
                tracing::info!("the volume listener uses its new certificates");
                *renewal = issued.renewal;
            }
            Source::Issued { .. } => {}
        }
        if let (Some(nodes), Some(pem)) = (&mut self.nodes, pem) {
            nodes.pem = pem;
        }
        Ok(())
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
