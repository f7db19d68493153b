//! The certificate authority of a store, and the certificate that its listener for nodes shows.
//!
//! - The store creates the authority once, at its first start. Nodes receive the certificate `volume-ca.pem`; the key
//!   `volume-ca-key.pem` is a secret of the store. A store whose data folder is a cache keeps both in its metadata. The certificate has no expiry (RFC 5280, section 4.1.2.5), because
//!   nodes trust the authority's key and name alone.
//! - A server certificate is issued at each start and again well before it expires. Its key stays in memory.
//!
//! A crash between the writes of the two files leaves the key alone; the next start writes the certificate of that key.

use std::fmt;
use std::path::Path;

use objstore_base::error::{Error as DiskError, Result as DiskResult};
use objstore_disk::Disk;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use time::{Duration, OffsetDateTime};
use zeroize::Zeroizing;

pub use objstore_base::clock::Timestamp;

/// The file with the authority's certificate, which nodes receive.
pub const CERTIFICATE_FILE: &str = "volume-ca.pem";
/// The file with the authority's key.
pub const KEY_FILE: &str = "volume-ca-key.pem";

/// How long a server certificate is valid.
const LIFETIME_DAYS: i64 = 90;
/// How long before its expiry a server certificate is replaced.
const RENEWAL_DAYS: i64 = 30;
/// How far the clock of a node may be behind.
const SKEW_DAYS: i64 = 1;

/// Why the authority or a certificate is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{file} cannot be read or written")]
    File {
        /// The name of the file.
        file: &'static str,
        /// The disk's error.
        #[source]
        error: DiskError,
    },
    /// Other users may read the key.
    #[error("{KEY_FILE} {0}")]
    Exposed(String),
    /// The key file is damaged, or missing beside its certificate.
    #[error(
        "{KEY_FILE} is missing or damaged: restore it from a backup, or remove {CERTIFICATE_FILE} too and give every \
         node the new one"
    )]
    Damaged,
    /// The key that the store keeps in its metadata is damaged.
    #[error("the key of the authority in the metadata is damaged: give the listener a certificate with --volume-cert")]
    Kept,
    /// A certificate cannot be made, for example because a name is not a DNS name.
    #[error("cannot create a certificate for {names:?}: use DNS names and IP addresses")]
    Made {
        /// The names it was to have.
        names: Vec<String>,
        /// The reason.
        #[source]
        error: rcgen::Error,
    },
}

/// The authority of a store.
pub struct Authority {
    key: KeyPair,
    certificate_pem: String,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// A certificate chain with its key.
pub struct Issued {
    /// The chain in PEM, the server's own certificate first.
    pub chain_pem: String,
    /// The key in PEM.
    pub key_pem: Zeroizing<String>,
    /// When the next certificate should be issued.
    pub renewal: Timestamp,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("renewal", &self.renewal).finish_non_exhaustive()
    }
}

impl Authority {
    /// The authority in a folder; made there if there is none. One process at a time, under the lock of the data folder.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(disk: &dyn Disk, folder: &Path, now: Timestamp) -> Result<Self, Error> {
        let (certificate_file, key_file) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        let has = |file: &Path, name| disk.exists(file).map_err(|error| Error::File { file: name, error });
        let (has_certificate, has_key) = (has(&certificate_file, CERTIFICATE_FILE)?, has(&key_file, KEY_FILE)?);
        let key = match (has_certificate, has_key) {
            (_, true) => read_key(disk, &key_file)?,
            (true, false) => return Err(Error::Damaged),
            (false, false) => make_key(disk, &key_file)?,
        };
        let certificate_pem = if has_certificate {
            let bytes = in_file(CERTIFICATE_FILE, disk.read_all(&certificate_file))?;
            String::from_utf8(bytes).map_err(|_| Error::Damaged)?
        } else {
            let certificate = own_params(now).self_signed(&key).map_err(|error| made(&[], error))?;
            let pem = certificate.pem();
            in_file(CERTIFICATE_FILE, disk.write_atomic(&certificate_file, pem.as_bytes(), 0o644))?;
            pem
        };
        Ok(Self { key, certificate_pem })
    }

    /// An authority that is written nowhere, or that the caller keeps.
    ///
    /// # Errors
    /// [`Error::Made`].
    pub fn in_memory(now: Timestamp) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(|error| made(&[], error))?;
        let certificate_pem = own_params(now).self_signed(&key).map_err(|error| made(&[], error))?.pem();
        Ok(Self { key, certificate_pem })
    }

    /// The authority of a key and a certificate that were kept elsewhere.
    ///
    /// # Errors
    /// [`Error::Kept`].
    pub fn kept(key_pem: &str, certificate_pem: String) -> Result<Self, Error> {
        let key = KeyPair::from_pem(key_pem).map_err(|_| Error::Kept)?;
        Ok(Self { key, certificate_pem })
    }

    /// The authority's key in PEM, to be kept secret.
    pub fn key_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.key.serialize_pem())
    }

    /// The authority's certificate in PEM: what a node trusts.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Issues a certificate for a server with these DNS names and IP addresses, and a key of its own.
    ///
    /// # Errors
    /// [`Error::Made`].
    pub fn issue(&self, names: &[String], now: Timestamp) -> Result<Issued, Error> {
        self.issue_for(names, now, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a certificate for a node of this name, to be given to it together with its key.
    ///
    /// # Errors
    /// [`Error::Made`].
    pub fn issue_node(&self, name: &str, now: Timestamp) -> Result<Issued, Error> {
        self.issue_for(&[name.to_owned()], now, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue_for(&self, names: &[String], now: Timestamp, usage: ExtendedKeyUsagePurpose) -> Result<Issued, Error> {
        let failed = |error| made(names, error);
        let now = date(now);
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, names.first().map_or("amphora", String::as_str));
        params.not_before = now - Duration::days(SKEW_DAYS);
        params.not_after = now + Duration::days(LIFETIME_DAYS);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let own = own_params(Timestamp::default());
        let issuer = Issuer::from_params(&own, &self.key);
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        let renewal = now + Duration::days(LIFETIME_DAYS - RENEWAL_DAYS);
        Ok(Issued {
            chain_pem: certificate.pem(),
            key_pem: Zeroizing::new(key.serialize_pem()),
            renewal: Timestamp::from_parts(renewal.unix_timestamp(), 0),
        })
    }
}

/// The parameters of the authority's own certificate: always the same name, so that any copy of it verifies.
fn own_params(now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Amphora volumes");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date(now) - Duration::days(SKEW_DAYS);
    params.not_after = date_time_ymd(9999, 12, 31) + Duration::seconds(24 * 60 * 60 - 1);
    params
}

fn read_key(disk: &dyn Disk, file: &Path) -> Result<KeyPair, Error> {
    if let Some(permissions) = in_file(KEY_FILE, disk.permissions(file))? {
        permissions.of_a_secret().map_err(Error::Exposed)?;
    }
    let bytes = Zeroizing::new(in_file(KEY_FILE, disk.read_all(file))?);
    let pem = std::str::from_utf8(&bytes).map_err(|_| Error::Damaged)?;
    KeyPair::from_pem(pem).map_err(|_| Error::Damaged)
}

fn make_key(disk: &dyn Disk, file: &Path) -> Result<KeyPair, Error> {
    let key = KeyPair::generate().map_err(|error| made(&[], error))?;
    let pem = Zeroizing::new(key.serialize_pem());
    in_file(KEY_FILE, disk.write_atomic(file, pem.as_bytes(), 0o600))?;
    Ok(key)
}

fn in_file<T>(file: &'static str, done: DiskResult<T>) -> Result<T, Error> {
    done.map_err(|error| Error::File { file, error })
}

fn made(names: &[String], error: rcgen::Error) -> Error {
    Error::Made { names: names.to_vec(), error }
}

/// A time of the clock as the certificate has it: whole seconds.
fn date(time: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(time.parts().0).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use objstore_disk::RealDisk;

    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000_000_000);

    #[test]
    fn the_authority_is_made_once_and_its_key_is_secret() {
        let (folder, disk) = (tempfile::tempdir().unwrap(), RealDisk::new());
        let first = Authority::open(&disk, folder.path(), NOW).unwrap();
        let again = Authority::open(&disk, folder.path(), NOW).unwrap();
        assert_eq!(first.certificate_pem(), again.certificate_pem());
        let mode = |file| fs::metadata(folder.path().join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(CERTIFICATE_FILE), mode(KEY_FILE)), (0o644, 0o600));
        assert!(!format!("{first:?} {:?}", first.issue(&["a".to_owned()], NOW).unwrap()).contains("PRIVATE"));
    }

    #[test]
    fn an_authority_that_is_kept_elsewhere_issues_certificates_of_the_same() {
        let made = Authority::in_memory(NOW).unwrap();
        let (key, certificate) = (made.key_pem(), made.certificate_pem().to_owned());
        let again = Authority::kept(&key, certificate.clone()).unwrap();
        assert_eq!((&*again.key_pem(), again.certificate_pem()), (&*key, &*certificate));
        assert!(again.issue(&["a".to_owned()], NOW).is_ok());
        let damaged = Authority::kept("damaged", certificate).unwrap_err();
        assert!(matches!(damaged, Error::Kept) && damaged.to_string().contains("--volume-cert"));
    }

    #[test]
    fn an_exposed_lost_or_damaged_key_is_refused_with_advice() {
        let (folder, disk) = (tempfile::tempdir().unwrap(), RealDisk::new());
        Authority::open(&disk, folder.path(), NOW).unwrap();
        let key = folder.path().join(KEY_FILE);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let exposed = Authority::open(&disk, folder.path(), NOW).unwrap_err();
        assert!(matches!(&exposed, Error::Exposed(why) if why.contains("chmod 6")), "{exposed}");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&key, "damaged").unwrap();
        assert!(matches!(Authority::open(&disk, folder.path(), NOW), Err(Error::Damaged)));
        fs::remove_file(&key).unwrap();
        assert!(matches!(Authority::open(&disk, folder.path(), NOW), Err(Error::Damaged)));
        assert!(!key.exists(), "a new key beside an old certificate would lock every node out");
    }

    #[test]
    fn a_crash_after_the_key_leaves_an_authority_that_the_next_start_completes() {
        let (folder, disk) = (tempfile::tempdir().unwrap(), RealDisk::new());
        Authority::open(&disk, folder.path(), NOW).unwrap();
        let key = fs::read(folder.path().join(KEY_FILE)).unwrap();
        fs::remove_file(folder.path().join(CERTIFICATE_FILE)).unwrap();
        Authority::open(&disk, folder.path(), NOW).unwrap();
        assert_eq!(fs::read(folder.path().join(KEY_FILE)).unwrap(), key);
        assert!(folder.path().join(CERTIFICATE_FILE).exists());
    }

    #[test]
    fn a_certificate_is_renewed_well_before_it_expires() {
        let (folder, disk) = (tempfile::tempdir().unwrap(), RealDisk::new());
        let authority = Authority::open(&disk, folder.path(), NOW).unwrap();
        let issued = authority.issue(&["store.example".to_owned(), "10.0.0.1".to_owned()], NOW).unwrap();
        let days = (issued.renewal.0 - NOW.0) / 1_000_000_000 / (24 * 60 * 60);
        assert_eq!(days, LIFETIME_DAYS - RENEWAL_DAYS);
        let unnamed = authority.issue(&["not a name\u{e9}".to_owned()], NOW);
        assert!(matches!(unnamed, Err(Error::Made { .. })));
    }
}
