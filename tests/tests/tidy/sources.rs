//! Rules for Rust files: their openings, their length, and forbidden calls.

use super::tree::{File, Finding};

/// The most lines of a file: a longer one has more than one subject.
const LONGEST: usize = 600;

/// Calls of std, rustix and libc that make a change durable or move a name. Our own functions `fsync` (of a mount) and
/// `rename` (of a tree) are allowed.
const DISK_CALLS: [&str; 13] = [
    ".sync_all(",
    ".sync_data(",
    "fs::rename(",
    "fs::renameat(",
    "fs::renameat_with(",
    "fs::fsync(",
    "fs::fdatasync(",
    "fs::sync(",
    "fs::syncfs(",
    "libc::fsync(",
    "libc::fdatasync(",
    "libc::rename",
    "libc::sync",
];

/// Every file begins with a `//!` line that says what it is.
pub fn module_docs(file: &File) -> Vec<Finding> {
    let exempt = !file.is_rust() || file.path.ends_with("build.rs");
    let opens = file.text.lines().next().is_some_and(|line| line.starts_with("//! "));
    if exempt || opens {
        Vec::new()
    } else {
        vec![file.finding(1, "open with `//! ` and one sentence on what this is")]
    }
}

/// No file is longer than [`LONGEST`].
pub fn length(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    if !file.is_rust() || lines <= LONGEST {
        return Vec::new();
    }
    vec![file.finding(LONGEST + 1, format!("{lines} lines, at most {LONGEST}: give the second noun a file of its own"))]
}

/// Lints are silenced by `expect`, which fails once it is unneeded, not by `allow`.
pub fn allowed_lints(file: &File) -> Vec<Finding> {
    // In two pieces, so that this file is no finding.
    let forms = [concat!("#[", "allow("), concat!("#![", "allow(")];
    let lines = file.lines().filter(|_| file.is_rust());
    let found = lines.filter(|(_, line)| forms.iter().any(|form| line.trim_start().starts_with(form)));
    found.map(|(line, _)| file.finding(line, "write #[expect(lint, reason = \"…\")]")).collect()
}

/// Only `objstore/disk` syncs and renames. Tests may do so with their own files.
pub fn syncs_and_renames(file: &File) -> Vec<Finding> {
    let disk = file.path.starts_with("objstore/disk/src/");
    let of_tests = file.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "testing"));
    if disk || of_tests || !file.is_rust() {
        return Vec::new();
    }
    // A `#[cfg(test)] mod` is the last item of a file here.
    let product = file.lines().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let code = product.map(|(number, line)| (number, line.split("//").next().unwrap_or_default()));
    let found = code.filter_map(|(number, line)| Some((number, DISK_CALLS.iter().find(|call| line.contains(**call))?)));
    found.map(|(number, call)| file.finding(number, format!("`{call}` belongs in objstore/disk: call that"))).collect()
}

#[test]
fn a_sync_outside_disk_is_found() {
    let text =
        "//! Docs.\nfile.sync_all()?;\n// file.sync_data()\ntree.rename(a, b);\n#[cfg(test)]\nfile.sync_all()?;\n";
    let file = |path: &str| File { path: path.to_owned(), text: text.to_owned() };
    let lines: Vec<_> = syncs_and_renames(&file("objstore/src/blob.rs")).iter().map(|finding| finding.line).collect();
    assert_eq!(lines, [2]);
    assert_eq!(syncs_and_renames(&file("objstore/disk/src/lib.rs")), []);
}

#[test]
fn an_unexplained_file_and_an_allow_are_found() {
    let text = format!("use a::b;\n    {}dead_code)]\n", concat!("#[", "allow("));
    let file = File { path: "s3/src/a.rs".to_owned(), text };
    assert_eq!((module_docs(&file).len(), allowed_lints(&file).len()), (1, 1));
}
