//! The container image of `deploy/image`: what is in it, and that it is made without a network.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);

/// A static program that stands for ours, which takes minutes to build.
fn stand_in() -> Result<String, String> {
    let busybox = required("busybox")?;
    required("objcopy")?;
    let dynamic = run(Command::new("ldd").arg(&busybox), LIMIT)?.status.success();
    if dynamic { Err("this busybox is not static".to_owned()) } else { Ok(busybox.display().to_string()) }
}

fn build(program: &str, words: &[&str]) -> Outcome {
    let mut command = Command::new(repo().join("deploy/image/build.sh"));
    run(command.args(words).env("PROGRAM", program), LIMIT).expect("it ends")
}

fn files(folder: &Path, below: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.file_type().expect("a type").is_dir() {
            files(&entry.path(), below, found);
        } else {
            found.insert(entry.path().strip_prefix(below).expect("below").display().to_string());
        }
    }
}

#[test]
fn the_image_has_the_program_its_licence_and_no_other_program() {
    let program = need!(stand_in());
    let home = Home::new().expect("a folder");
    let out = home.path().join("out");
    drop(build(&program, &["--files", out.to_str().expect("a path of ours")]).ok());
    let root = std::fs::read_dir(&out).expect("a folder").flatten().next().expect("an architecture").path();
    let mut found = BTreeSet::new();
    files(&root, &root, &mut found);
    let wanted = ["etc/group", "etc/passwd", "usr/bin/amphora", "usr/share/doc/amphora/LICENSE"];
    assert_eq!(found, wanted.map(str::to_owned).into());
}

#[test]
fn a_program_that_needs_libraries_is_refused() {
    need!(stand_in());
    let home = Home::new().expect("a folder");
    let dynamic = need!(amphora());
    let outcome = build(&dynamic.display().to_string(), &["--files", home.path().to_str().expect("a path of ours")]);
    if outcome.status.success() {
        skip!("the program under test is static");
    }
    assert!(outcome.stderr.contains("is not static"), "{outcome}");
}
