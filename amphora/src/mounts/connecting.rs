//! The connections of a mount to a store on another machine, with the certificate that its node shows.
//!
//! - The files of the certificate are read at each connection, so a renewed one is used without a restart. While they cannot
//!   be read, or do not belong together because they are just being replaced, the last good pair is used.

use std::io;
use std::sync::Arc;

use node_wire::client::{Tls, Transport};
use node_wire::credential::Binding;
use node_wire::tls::Trust;
use parking_lot::Mutex;

use super::remote::Remote;
use crate::config::TlsFiles;
use crate::failure::with_causes;
use crate::tls_pair::FileContent;

/// Connects to the store of a mount. A cheap handle.
#[derive(Clone)]
pub(super) struct Connecting(Arc<Source>);

struct Source {
    server: String,
    authority: Option<String>,
    files: Option<TlsFiles>,
    last: Mutex<Option<Last>>,
}

/// What connected last.
struct Last {
    read: Option<FileContent>,
    tls: Tls,
}

impl Connecting {
    /// To the store of a mount.
    pub(super) fn new(remote: &Remote) -> Self {
        let (server, authority, files) = (remote.server.clone(), remote.ca.clone(), remote.identity.clone());
        Self(Arc::new(Source { server, authority, files, last: Mutex::default() }))
    }

    /// Checks the address, the authority and the files.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        self.0.read_again()
    }

    fn trusts_any(&self) -> bool {
        self.0.authority.is_none()
    }
}

impl Source {
    /// Reads the files, and uses them from now on if they changed. Blocking.
    fn read_again(&self) -> Result<(), String> {
        let read = self.files.as_ref().map(FileContent::load).transpose()?;
        if self.last.lock().as_ref().is_some_and(|last| last.read == read) {
            return Ok(());
        }
        let trust = self.authority.as_deref().map_or(Trust::AccessKey, |ca| Trust::Authority(ca.as_bytes()));
        let own = read.as_ref().map(FileContent::pair);
        let tls = Tls::to(&self.server, trust, own).map_err(|error| match &self.files {
            Some(files) => format!("{}: {}", files.certificate.display(), with_causes(&error)),
            None => with_causes(&error),
        })?;
        *self.last.lock() = Some(Last { read, tls });
        Ok(())
    }

    fn tls(&self) -> Option<Tls> {
        self.last.lock().as_ref().map(|last| last.tls.clone())
    }
}

impl Transport for Connecting {
    type Stream = <Tls as Transport>::Stream;

    async fn connect(&self) -> io::Result<(Self::Stream, Binding)> {
        let source = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || source.read_again()).await.map_err(io::Error::other)?;
        let tls = match (read, self.0.tls()) {
            (Ok(()), Some(tls)) => tls,
            (Err(why), Some(tls)) => {
                tracing::warn!(why, "the certificate of this node was not read again; the last one is shown");
                tls
            }
            (read, None) => return Err(io::Error::other(read.err().unwrap_or_default())),
        };
        tls.connect().await
    }

    fn trusts_any_certificate(&self) -> bool {
        self.trusts_any()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use node_certificate::{Authority, Timestamp};

    use super::super::remote::Proof;
    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changed");
    }

    #[test]
    fn renewed_files_are_used_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = TlsFiles { certificate: folder.path().join("cert"), key: folder.path().join("key") };
        let authority = Authority::in_memory(Timestamp::from_parts(1_700_000_000, 0)).expect("an authority");
        let issue = || authority.issue_node("n1", Timestamp::from_parts(1_700_000_000, 0)).expect("a certificate");
        let remote = Remote::new("store:7000".into(), None, Proof::Ticket(String::new())).showing(Some(files.clone()));
        let connecting = Connecting::new(&remote);
        let refused = connecting.check().expect_err("no files");
        assert!(refused.contains("cannot be read"), "{refused}");
        let first = issue();
        write(&files.certificate, &first.chain_pem, 0o644);
        write(&files.key, &first.key_pem, 0o644);
        let refused = connecting.check().expect_err("open to others");
        assert!(refused.contains("open to others") && connecting.0.tls().is_none(), "{refused}");
        write(&files.key, &first.key_pem, 0o600);
        connecting.check().expect("a pair");
        let shown = || {
            connecting
                .0
                .last
                .lock()
                .as_ref()
                .and_then(|last| last.read.as_ref().map(|read| read == &FileContent::load(&files).expect("read")))
        };
        assert_eq!(shown(), Some(true));
        let second = issue();
        write(&files.certificate, &second.chain_pem, 0o644);
        connecting.check().expect_err("half of a pair");
        assert_eq!(shown(), Some(false), "the last pair stays");
        write(&files.key, &second.key_pem, 0o600);
        connecting.check().expect("the next pair");
        assert_eq!(shown(), Some(true));
    }
}
