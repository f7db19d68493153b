//! The password of PostgreSQL where the URL has none, by the rules of libpq: `PGPASSWORD`, else the password file.
//!
//! - The file is the URL's `passfile`, else `PGPASSFILE`, else `~/.pgpass`. Each line is `HOST:PORT:DATABASE:USER:PASSWORD`;
//!   `*` matches everything, `\\` makes the next character an ordinary one, and the first line that matches counts.
//! - A file that group or others may read is refused if it was named, and otherwise ignored with a warning.
//! - No error shows a line of the file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Reads a variable of the environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The most bytes that are read of a password file.
const FILE_MAX: u64 = 1 << 20;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// The password for the connection of `config`, if there is one.
pub(super) fn find(config: &Config, passfile: Option<&Path>, env: Env<'_>) -> Result<Option<String>, String> {
    let variable = |name| env(name).filter(|value| !value.is_empty());
    if let Some(password) = variable("PGPASSWORD") {
        return password.into_string().map(Some).map_err(|_| "PGPASSWORD is not UTF-8".to_owned());
    }
    let named = passfile.map(PathBuf::from).or_else(|| variable("PGPASSFILE").map(PathBuf::from));
    if let Some(file) = named {
        return Ok(matching(config, &read(&file)?));
    }
    let Some(home) = variable("HOME") else { return Ok(None) };
    let file = Path::new(&home).join(".pgpass");
    if !file.exists() {
        return Ok(None);
    }
    match read(&file) {
        Ok(text) => Ok(matching(config, &text)),
        Err(why) => {
            tracing::warn!(why, "the password file is ignored");
            Ok(None)
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unread = |error: std::io::Error| match error.kind() {
        ErrorKind::InvalidData => format!("the password file {shown} is not UTF-8"),
        _ => format!("the password file {shown} cannot be read: {error}"),
    };
    let found = std::fs::metadata(path).map_err(unread)?;
    if !found.is_file() {
        return Err(format!("the password file {shown} is not a file"));
    }
    if found.mode() & OTHERS != 0 {
        return Err(format!("the password file {shown} can be read by others: chmod 0600 {shown}"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(unread)?;
    file.take(FILE_MAX).read_to_string(&mut text).map_err(unread)?;
    Ok(text)
}

/// The password of the first line that matches any of the hosts.
fn matching(config: &Config, text: &str) -> Option<String> {
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432).to_string();
    let hosts: Vec<_> = config.get_hosts().iter().enumerate().map(|(at, host)| (name(host), port(at))).collect();
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(fields);
    let mut lines = lines.filter(|fields| fields.len() == 5);
    let found = lines.find(|fields| {
        let is = |at: usize, value: &str| fields[at].0 == value || fields[at].1;
        let place = hosts.iter().any(|(host, port)| is(0, host) && is(1, port));
        place && is(2, database) && is(3, user)
    });
    found.map(|mut fields| fields.remove(4).0)
}

/// The host as the file names it: a socket in a folder is `localhost`.
fn name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(_) => "localhost".to_owned(),
    }
}

/// The fields of a line, each with whether it is `*`; the last one has everything behind the fourth colon.
fn fields(line: &str) -> Vec<(String, bool)> {
    let mut fields = vec![(String::new(), false)];
    let (mut rest, mut escaped) = (line.chars(), false);
    while let Some(next) = rest.next() {
        let last = fields.len() - 1;
        match next {
            '\\' => {
                fields[last].0.extend(rest.next());
                escaped = true;
            }
            ':' if last < 4 => {
                fields[last].1 = fields[last].0 == "*" && !escaped;
                fields.push((String::new(), false));
                escaped = false;
            }
            other => fields[last].0.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_line_that_matches_has_the_password() {
        let text = "# other:1:d:u:comment\nother:*:*:*:wrong\nh:5433:d:u:by port\n*:*:d:u:a\\:b:c\\\\d\n*:*:*:*:late\n";
        let found = |url: &str| matching(&url.parse().unwrap(), text);
        assert_eq!(found("postgres://u@h:5433/d").as_deref(), Some("by port"));
        assert_eq!(found("postgres://u@h/d").as_deref(), Some("a:b:c\\d"));
        assert_eq!(found("postgres://u@x:1,h:5433/d").as_deref(), Some("by port"), "any host of several");
        assert_eq!(found("postgres://v@h/d").as_deref(), Some("late"));
        assert_eq!(matching(&"postgres://u@h/d".parse().unwrap(), "h:5432:d\nx:5432:d:u:p\n\\*:*:*:*:no"), None);
        let local = "localhost:5432:u:u:socket";
        assert_eq!(matching(&"postgres:///?user=u&host=%2Frun".parse().unwrap(), local).as_deref(), Some("socket"));
    }

    #[test]
    fn a_named_file_that_others_may_read_is_refused_and_a_variable_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".pgpass");
        std::fs::write(&file, "*:*:*:*:hush-hush").unwrap();
        let config: Config = "postgres://u@h/d".parse().unwrap();
        let home = |name: &str| (name == "HOME").then(|| dir.path().into());
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        let refused = find(&config, Some(&file), &|_| None).unwrap_err();
        assert!(refused.contains("chmod 0600") && !refused.contains("hush"), "{refused}");
        assert_eq!(find(&config, None, &home).unwrap(), None, "it was not named");
        mode(0o600);
        assert_eq!(find(&config, None, &home).unwrap().as_deref(), Some("hush-hush"));
        assert_eq!(find(&config, Some(&file), &|_| None).unwrap().as_deref(), Some("hush-hush"));
        let variable = |name: &str| (name == "PGPASSWORD").then(|| "first".into());
        assert_eq!(find(&config, Some(&file), &variable).unwrap().as_deref(), Some("first"));
        assert!(find(&config, Some(&dir.path().join("absent")), &|_| None).unwrap_err().contains("cannot be read"));
        assert!(find(&config, Some(dir.path()), &|_| None).unwrap_err().contains("is not a file"));
    }
}
