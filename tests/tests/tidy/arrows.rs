//! Allowed dependencies between our crates: `proto → cosi, csi` and `objstore → s3, cosi, csi, fuse → amphora → tests`.
//! `corpora`, which only tests use, depends on none. Crates inside another's folder are members of the workspace too.
//!
//! - The layers of the store are crates below `objstore`: `base → disk → kv, blob → record → objstore`. The crates above the store reach
//!   them through `objstore` alone. `objstore-log`, the fenced log of batches, knows `bucket` alone: `bucket → log → kv`.
//! - `node-session` is what a store and its nodes agree on, without I/O: the store keeps its outcomes and ends its sessions.
//! - `s3-policy` evaluates bucket policies and knows neither the store nor the S3 protocol: `s3-policy → s3`.
//! - `objstore-files` is the seam between a mount and a store: `fuse` knows it and not the store, which only its tests use.

use super::tree::{File, Finding, has_word};

/// Our crates, each with those of ours that it may depend on. `csi` and `fuse` do not depend on each other.
const ARROWS: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("corpora", &[]),
    ("objstore-base", &[]),
    ("objstore-disk", &["objstore-base"]),
    ("objstore-testing", &["objstore-base", "objstore-disk"]),
    ("objstore-log", &["objstore-bucket", "objstore-testing"]),
    ("objstore-bucket", &["objstore-base", "objstore-testing"]),
    ("objstore-kv", &["objstore-base", "objstore-disk", "objstore-log", "objstore-testing"]),
    ("objstore-blob", &["objstore-base", "objstore-bucket", "objstore-disk", "objstore-testing"]),
    ("objstore-record", &["objstore-base", "objstore-blob"]),
    ("objstore-files", &["objstore-base"]),
    ("objstore-files-testing", &["objstore-base", "objstore-files", "node-codec"]),
    ("node-codec", &["objstore-base", "objstore-files", "corpora"]),
    (
        "objstore",
        &[
            "objstore-base",
            "objstore-disk",
            "objstore-kv",
            "objstore-blob",
            "objstore-bucket",
            "objstore-record",
            "objstore-files",
            "objstore-files-testing",
            "objstore-testing",
            "node-session",
            "node-testing",
            "corpora",
        ],
    ),
    ("s3-policy", &[]),
    ("s3-oidc", &[]),
    ("s3", &["s3-policy", "s3-oidc", "objstore", "corpora"]),
    ("rpc", &["objstore"]),
    ("cosi", &["proto", "rpc", "objstore"]),
    ("csi", &["proto", "rpc", "objstore", "node-session", "corpora"]),
    ("fuse-wire", &["corpora"]),
    ("fuse-holder", &["corpora"]),
    (
        "fuse",
        &[
            "fuse-wire",
            "fuse-holder",
            "objstore-base",
            "objstore-disk",
            "objstore-files",
            "objstore-files-testing",
            "node-testing",
            "objstore",
            "corpora",
        ],
    ),
    ("node-certificate", &["objstore-base", "objstore-disk"]),
    ("node-wire", &["objstore-base", "node-certificate", "corpora"]),
    ("node-session", &["node-wire", "objstore-base", "objstore-testing"]),
    ("node-server", &["node-codec", "node-session", "node-wire", "objstore-base", "objstore-files"]),
    ("node-client", &["node-codec", "node-session", "node-wire", "objstore-base", "objstore-files"]),
    (
        "node-testing",
        &[
            "node-certificate",
            "node-client",
            "node-codec",
            "node-server",
            "node-session",
            "node-wire",
            "objstore-base",
            "objstore-files",
        ],
    ),
    (
        "amphora",
        &[
            "proto",
            "rpc",
            "objstore",
            "objstore-files",
            "s3",
            "cosi",
            "csi",
            "fuse",
            "node-certificate",
            "node-client",
            "node-codec",
            "node-server",
            "node-session",
            "node-wire",
        ],
    ),
    ("tests", &["proto", "objstore", "s3", "cosi", "csi", "fuse", "amphora"]),
];

/// Our crates that hold what tests share: entries of `[dev-dependencies]` alone.
const FOR_TESTS: [&str; 4] = ["corpora", "objstore-testing", "objstore-files-testing", "node-testing"];

/// Crates that only the tests of another may use.
const FOR_TESTS_OF: [(&str, &str); 1] = [("fuse", "objstore")];

/// Crates and modules that stand for a protocol or an engine, each with the folders that may name them.
const FOREIGN: [(&str, &[&str]); 6] = [
    ("s3s", &["s3/src/"]),
    ("fuse_wire", &["fuse/src/lib.rs"]),
    ("crate::wire", &["fuse/src/adapter/"]),
    ("fjall", &["objstore/kv/src/fjall_engine/"]),
    ("aws_sdk_s3", &["objstore/bucket/src/", "tests/"]),
    ("tokio_postgres", &["objstore/log/src/postgres/"]),
];

/// Reads the dependency tables of a member's Cargo.toml; every entry must also come from the workspace.
pub fn crate_arrows(file: &File) -> Vec<Finding> {
    let package = package(file);
    let Some((name, allowed)) = ARROWS.iter().find(|(name, _)| package == Some(name)) else { return Vec::new() };
    let mut findings = Vec::new();
    let in_product = |table: &str| table.ends_with("dependencies") && table != "dev-dependencies";
    let product: Vec<_> = entries(file, in_product).map(|(line, _)| line).collect();
    for (line, entry) in entries(file, |table| table.ends_with("dependencies")) {
        let dependency = entry.split(['.', '=', ' ']).next().unwrap_or_default();
        if ARROWS.iter().any(|(ours, _)| *ours == dependency) && !allowed.contains(&dependency) {
            findings
                .push(file.finding(line, format!("{name} must not depend on {dependency}: move the code or the type")));
        }
        let for_tests = FOR_TESTS.contains(&dependency) || FOR_TESTS_OF.contains(&(name, dependency));
        if for_tests && product.contains(&line) {
            findings.push(file.finding(line, format!("{dependency} is for tests: move it to [dev-dependencies]")));
        }
        if !entry.contains("workspace = true") {
            findings.push(
                file.finding(line, "declare it in the root Cargo.toml with its reason, and use workspace = true"),
            );
        }
    }
    findings
}

/// Every member of the workspace stands among the arrows, wherever its folder lies.
pub fn members_without_arrows(files: &[File]) -> Vec<Finding> {
    let members = members(files);
    let manifests =
        files.iter().filter(|file| members.iter().any(|member| file.path == format!("{member}/Cargo.toml")));
    let unlisted = manifests.filter(|file| !ARROWS.iter().any(|(name, _)| package(file) == Some(name)));
    unlisted
        .map(|file| {
            file.finding(1, "add this crate to `ARROWS` in tidy/arrows.rs, with the crates that it may depend on")
        })
        .collect()
}

/// The folders of the workspace's members, as the root Cargo.toml lists them.
fn members(files: &[File]) -> Vec<&str> {
    let root = files.iter().find(|file| file.path == "Cargo.toml");
    let list = root.and_then(|root| root.text.split_once("members = [")?.1.split_once(']')).map(|(list, _)| list);
    list.unwrap_or_default().split('"').skip(1).step_by(2).collect()
}

/// The package that a Cargo.toml describes.
fn package(file: &File) -> Option<&str> {
    let manifest = file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml");
    let (_, entry) = entries(file, |table| table == "package").find(|(_, entry)| entry.starts_with("name = "))?;
    entry.split('"').nth(1).filter(|_| manifest)
}

/// Every third-party dependency in the root Cargo.toml has its reason in a comment behind it.
pub fn dependency_reasons(file: &File) -> Vec<Finding> {
    if file.path != "Cargo.toml" {
        return Vec::new();
    }
    let unexplained = entries(file, |table| table == "workspace.dependencies")
        .filter(|(_, entry)| !entry.contains("path = "))
        .filter(|(_, entry)| entry.rsplit_once("# ").is_none_or(|(_, reason)| reason.trim().is_empty()));
    unexplained.map(|(line, _)| file.finding(line, "say why it is needed: append `# reason`")).collect()
}

/// Finds protocols and engines that are named outside their folders.
pub fn foreign_imports(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !file.is_rust() || file.path.starts_with("tests/") {
        return findings;
    }
    for (name, homes) in FOREIGN.iter().filter(|(_, homes)| !homes.iter().any(|home| file.path.starts_with(home))) {
        for (line, text) in file.lines().filter(|(_, text)| imports(text, name)) {
            let homes = homes.join(" and ");
            findings.push(file.finding(line, format!("only {homes} may name {name}: `{}`", text.trim())));
        }
    }
    findings
}

fn imports(line: &str, name: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    has_word(code, name) && (code.contains(&format!("{name}::")) || code.trim_start().starts_with("use "))
}

/// The entries of the tables that `wanted` picks, without blank lines and comments.
fn entries(file: &File, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    file.lines().filter(move |(_, line)| {
        if let Some(header) = line.strip_prefix('[') {
            inside = wanted(header.trim_end().trim_end_matches(']'));
            return false;
        }
        inside && !line.trim().is_empty() && !line.starts_with('#')
    })
}

#[test]
fn a_reversed_arrow_is_found() {
    let text = "[package]\nname = \"csi\"\n[dev-dependencies]\nobjstore.workspace = true\nfuse.workspace = true\nlru = \"1\"\n";
    let file = File { path: "csi/Cargo.toml".to_owned(), text: text.to_owned() };
    let lines: Vec<_> = crate_arrows(&file).iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [5, 6]);
}

#[test]
fn an_arrow_back_to_the_store_is_found() {
    let lines = |package: &str, tables: &str| -> Vec<_> {
        let file = File { path: "a/Cargo.toml".to_owned(), text: format!("[package]\nname = \"{package}\"\n{tables}") };
        crate_arrows(&file).iter().map(|finding| finding.line).collect()
    };
    let arrows = "[dependencies]\nobjstore-base.workspace = true\nobjstore.workspace = true\n";
    assert_eq!(lines("objstore-disk", arrows), [5]);
    assert_eq!(lines("csi", arrows), [4], "the layers of the store are its own");
    let tests = "[dependencies]\nobjstore-testing.workspace = true\n[dev-dependencies]\ncorpora.workspace = true\n";
    assert_eq!(lines("objstore", tests), [4]);
    let store = "[dependencies]\nobjstore.workspace = true\n[dev-dependencies]\nobjstore.workspace = true\n";
    assert_eq!(lines("fuse", store), [4], "a mount knows the seam, and its tests the store");
}

#[test]
fn a_member_without_arrows_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let files = [
        file("Cargo.toml", "[workspace]\nmembers = [\"fuse\",\n    \"fuse/new\"]\n"),
        file("fuse/Cargo.toml", "[package]\nname = \"fuse\"\n"),
        file("fuse/new/Cargo.toml", "[package]\nname = \"fuse-new\"\n"),
        file("fuzz/Cargo.toml", "[package]\nname = \"fuzz\"\n"),
    ];
    let found: Vec<_> = members_without_arrows(&files).into_iter().map(|finding| finding.path).collect();
    assert_eq!(found, ["fuse/new/Cargo.toml"]);
}

#[test]
fn an_import_in_the_wrong_file_is_found() {
    let text = "//! Docs.\nuse s3s::S3;\n// s3s::Comment\nlet s3s_like = 1;\nuse crate::wire::Frame;\n";
    let file = |path: &str| File { path: path.to_owned(), text: text.to_owned() };
    assert_eq!(foreign_imports(&file("fuse/src/node.rs")).len(), 2);
    assert_eq!(foreign_imports(&file("s3/src/object.rs")).len(), 1);
    assert_eq!(foreign_imports(&file("fuse/src/adapter/mod.rs")).len(), 1);
}
