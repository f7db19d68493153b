//! The tools that `tests/setup.sh` installs, and the privileges that this machine gives to a test.

use std::path::{Path, PathBuf};

/// The root of the repository.
#[must_use]
pub fn repo() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the repository")
}

/// A tool of `tests/setup.sh` (`csi-sanity`, `pjdfstest`, `aws`, `rclone`) or of the machine (`git`, `sqlite3`).
#[must_use]
pub fn tool(name: &str) -> Option<PathBuf> {
    let ours = [".test-tools/bin", ".test-tools/venv/bin"].map(|dir| repo().join(dir));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A plain user's PATH does not contain mkfs and similar tools.
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let dirs = ours.into_iter().chain(std::env::split_paths(&path)).chain(system);
    dirs.map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// Like [`tool`], with the reason for a skip as its error: `let git = need!(required("git"));`.
///
/// # Errors
/// If the tool is not installed.
pub fn required(name: &str) -> Result<PathBuf, String> {
    tool(name).ok_or_else(|| format!("{name} is not installed: run tests/setup.sh"))
}

/// A program of the distribution's own package: the version that most users have, older than the one that
/// `tests/setup.sh` pins.
///
/// # Errors
/// If the package is not installed; the text is the reason of a skip.
pub fn packaged(name: &str) -> Result<PathBuf, String> {
    let path = Path::new("/usr/bin").join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("the distribution's {name} is not installed: run tests/setup.sh"))
    }
}

/// The Python with delta-rs, pyiceberg and DuckDB.
///
/// # Errors
/// If they are not installed; the text is the reason of a skip.
pub fn lake_python() -> Result<PathBuf, String> {
    let venv = repo().join(".test-tools/lake");
    let python = venv.join("bin/python");
    // The marker is written last, so an incomplete venv has none.
    let done = venv.join("done").is_file() && python.is_file();
    if done {
        Ok(python)
    } else {
        Err("delta-rs, pyiceberg and DuckDB are not installed: run tests/setup.sh".to_owned())
    }
}

/// The Python that has boto3.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let venv = repo().join(".test-tools/venv");
    let python = venv.join("bin/python");
    // An incomplete venv has a python without boto3; aws is installed together with boto3.
    (python.is_file() && venv.join("bin/aws").is_file()).then_some(python)
}

/// Node, and the folder with the packages of `tests/js`.
///
/// # Errors
/// If one of them is not installed.
pub fn node() -> Result<(PathBuf, PathBuf), String> {
    let modules = repo().join(".test-tools/js/node_modules");
    if !modules.join("@aws-sdk/client-s3").is_dir() {
        return Err("aws-sdk-js is not installed: run tests/setup.sh".to_owned());
    }
    Ok((required("node")?, modules))
}

/// Java, and the folder that holds the jars of Hadoop's S3A.
///
/// # Errors
/// If one of them is not installed; the text is the reason of a skip.
pub fn hadoop() -> Result<(PathBuf, PathBuf), String> {
    let jars = repo().join(".test-tools/hadoop");
    if !jars.join("done").is_file() {
        return Err("Hadoop's S3A is not installed: run tests/setup.sh".to_owned());
    }
    Ok((required("java")?, jars))
}

/// Whether this process may mount a FUSE file system.
///
/// # Errors
/// If it may not; the text says why, as the reason of a skip.
pub fn root_and_fuse() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("mounting needs root: run the tests as root".to_owned());
    }
    if !has_capability(CAP_SYS_ADMIN) {
        return Err("mounting needs CAP_SYS_ADMIN: run the container privileged".to_owned());
    }
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("mounting needs /dev/fuse, which does not open ({error}): modprobe fuse")),
    }
}

/// The bit of `CapEff` in /proc/self/status, from capabilities(7).
const CAP_SYS_ADMIN: u32 = 21;

fn has_capability(bit: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim);
    effective.and_then(|hex| u64::from_str_radix(hex, 16).ok()).is_some_and(|set| set & (1 << bit) != 0)
}

/// The `amphora` binary under test: `AMPHORA_BIN`, or the one built into the same target folder as this program.
///
/// # Errors
/// If there is none; the text says how to build it.
pub fn amphora() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("AMPHORA_BIN") {
        return Ok(PathBuf::from(path));
    }
    let here = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    // Tests lie in target/debug/deps, examples in target/debug/examples, programs in target/debug.
    let found = here.ancestors().skip(1).take(2).map(|dir| dir.join("amphora")).find(|path| path.is_file());
    found.ok_or_else(|| "the amphora binary is not built: run cargo build -p amphora --ignore-rust-version".to_owned())
}
