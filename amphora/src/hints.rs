//! Shell commands for the user to paste, printed after a first start and with a new key.
//!
//! - The commands after a first start go to stderr, where logs go, so they contain no secret but name the file that has
//!   it. Those for a new key are printed beside its secret.
//! - Values are quoted for a POSIX shell where necessary.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

/// Prints how to use a server that was started for the first time.
pub(crate) fn first_start(url: &str, credentials: &Path, region: &str) {
    // The hint is optional, so a failed write is ignored.
    let _ = std::io::stderr().write_all(start_text(url, credentials, region).as_bytes());
}

fn start_text(url: &str, credentials: &Path, region: &str) -> String {
    let (url, region) = (quoted(url), quoted(region));
    let file = quoted(credentials.display());
    let half = |name: &str| format!("\"$(sed -n 's/^aws_{name} = //p' {file})\"");
    let (id, secret) = (half("access_key_id"), half("secret_access_key"));
    format!(
        "\nThis store is new; its root key is in {file}. To use it, paste one of these:\n\
         \n  # aws\n  export AWS_SHARED_CREDENTIALS_FILE={file} AWS_ENDPOINT_URL={url} AWS_DEFAULT_REGION={region}\n  \
         aws s3 mb s3://photos\n\
         \n  # rclone\n  rclone config create amphora s3 provider Other endpoint {url} access_key_id {id} \
         secret_access_key {secret}\n\
         \n  # mc\n  mc alias set amphora {url} {id} {secret}\n\n"
    )
}

/// How to use a new key.
pub(crate) fn new_key(url: &str, id: &str, secret: &str) -> String {
    let (url, id, secret) = (quoted(url), quoted(id), quoted(secret));
    format!(
        "\nTo use the key, paste one of these:\n\
         \n  # aws\n  export AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} AWS_ENDPOINT_URL={url}\n\
         \n  # rclone\n  rclone config create amphora s3 provider Other endpoint {url} access_key_id {id} \
         secret_access_key {secret}\n\
         \n  # mc\n  mc alias set amphora {url} {id} {secret}\n"
    )
}

/// A value quoted as one word of a POSIX shell.
fn quoted(value: impl Display) -> String {
    let value = value.to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-+=@%,".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) { value } else { format!("'{}'", value.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn words_for_a_shell_are_what_they_were() {
        for value in ["plain/9:x", "a b", "it's", "$HOME", "", "a\"b\\c", "æ"] {
            let said =
                Command::new("sh").args(["-c", &format!("printf %s {}", quoted(value))]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&said.stdout), value);
        }
    }

    #[test]
    fn a_first_start_tells_lines_without_the_secret_that_find_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("root credentials");
        std::fs::write(&file, "[default]\naws_access_key_id = AKID\naws_secret_access_key = s/e+c=ret\n")
            .expect("written");
        let text = start_text("http://127.0.0.1:9000", &file, "us-east-1");
        assert!(!text.contains("s/e+c"), "{text}");
        for tool in ["aws s3 mb", "rclone config create", "mc alias set"] {
            assert!(text.contains(tool), "{text}");
        }
        let line = text.lines().find(|line| line.contains("mc alias")).expect("a line");
        let script = line.replace("mc alias set", "printf '%s ' ");
        let said = Command::new("sh").args(["-c", &script]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&said.stdout), "amphora http://127.0.0.1:9000 AKID s/e+c=ret ");
    }

    #[test]
    fn a_new_key_is_told_with_what_takes_it() {
        let text = new_key("http://h:9000", "AKID", "se$cret");
        for part in
            ["AWS_ACCESS_KEY_ID=AKID", "AWS_SECRET_ACCESS_KEY='se$cret'", "mc alias set amphora http://h:9000 AKID"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
