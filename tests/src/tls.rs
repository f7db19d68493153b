//! A certificate for a test server, and the CA certificate for its clients to trust.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::child::run;
use crate::tools::required;

const LIMIT: Duration = Duration::from_secs(60);

/// The certificate files in PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The CA certificate, for `AWS_CA_BUNDLE` and similar variables.
    pub authority: PathBuf,
    /// The server's certificate, for 127.0.0.1 and localhost.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

impl Certificate {
    /// Creates a certificate in `dir`, valid for two days.
    ///
    /// # Errors
    /// If openssl is missing or fails; the text is the reason of a skip.
    pub fn new(dir: &Path) -> Result<Self, String> {
        let [authority, authority_key, certificate, key] =
            ["ca.crt", "ca.key", "tls.crt", "tls.key"].map(|name| dir.join(name));
        // Strict clients require a CA separate from the server's certificate, each with its key usages.
        let ca = ["keyUsage=critical,keyCertSign,cRLSign"];
        request("/CN=amphora tests", &authority, &authority_key, None, &ca)?;
        let leaf = ["basicConstraints=critical,CA:FALSE", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
        request("/CN=localhost", &certificate, &key, Some((&authority, &authority_key)), &leaf)?;
        Ok(Self { authority, certificate, key })
    }

    /// A certificate of the same authority for a node of this name, in files beside it.
    ///
    /// # Errors
    /// If openssl is missing or fails.
    pub fn node(&self, name: &str) -> Result<Self, String> {
        let [certificate, key] = ["crt", "key"].map(|kind| self.certificate.with_file_name(format!("{name}.{kind}")));
        let authority_key = self.authority.with_extension("key");
        let names = format!("subjectAltName=DNS:{name}");
        let leaf = ["basicConstraints=critical,CA:FALSE", "extendedKeyUsage=clientAuth", &names];
        request("/CN=node", &certificate, &key, Some((&self.authority, &authority_key)), &leaf)?;
        Ok(Self { authority: self.authority.clone(), certificate, key })
    }
}

fn request(
    subject: &str,
    certificate: &Path,
    key: &Path,
    signer: Option<(&Path, &Path)>,
    extensions: &[&str],
) -> Result<(), String> {
    let mut command = Command::new(required("openssl")?);
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-days", "2", "-subj", subject]).arg("-out").arg(certificate).arg("-keyout").arg(key);
    if let Some((authority, key)) = signer {
        command.arg("-CA").arg(authority).arg("-CAkey").arg(key);
    }
    for extension in extensions {
        command.args(["-addext", extension]);
    }
    let outcome = run(&mut command, LIMIT)?;
    if outcome.status.success() { Ok(()) } else { Err(format!("a certificate cannot be made: {outcome}")) }
}
