//! A cargo build with sources and target folder on a mount: fingerprints by time, links, locks, executed programs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::mounted;
use crate::support::*;

/// The time limit of one call of cargo, in seconds.
const LIMIT: u64 = 200;

here_and_elsewhere! {
    fn a_crate_is_built_tested_and_then_up_to_date() {
        need!(root_and_fuse());
        let modules = amount(20, 400);
        let (mount, _server) = mounted();
        let dir = mount.path().join("crate");
        write_crate(&dir, modules);
        let output = cargo(&dir, &["test"]);
        assert!(output.contains(&format!("{modules} passed")), "{output}");
        assert!(cargo(&dir, &["run", "--quiet"]).contains(&format!("sum {}", modules * (modules - 1) / 2)));
        // The mount keeps times as exactly as cargo set them, so nothing is built twice.
        let again = cargo(&dir, &["build", "--verbose"]);
        assert!(again.contains("Fresh made") && !again.contains("Compiling"), "{again}");
        let source = dir.join("src/m0.rs");
        let text = std::fs::read_to_string(&source).expect("a module");
        std::fs::write(&source, text.replace("number() -> usize { 0 }", "number() -> usize { 1 }")).expect("a change");
        let output = cargo(&dir, &["build", "--verbose"]);
        assert!(output.contains("Dirty made") && output.contains("Compiling made"), "{output}");
        assert!(cargo(&dir, &["run", "--quiet"]).contains(&format!("sum {}", modules * (modules - 1) / 2 + 1)));
        cargo(&dir, &["clean"]);
        assert!(!dir.join("target/debug").exists());
    }
}

/// A crate that depends on nothing, with a build script and as many modules.
fn write_crate(dir: &Path, modules: usize) {
    std::fs::create_dir_all(dir.join("src")).expect("folders");
    let manifest = "[package]\nname = \"made\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let script = "fn main() {\n    let out = std::path::PathBuf::from(std::env::var_os(\"OUT_DIR\").unwrap());\n    \
                  std::fs::write(out.join(\"word.rs\"), \"\\\"sum\\\"\").unwrap();\n    \
                  println!(\"cargo:rerun-if-changed=build.rs\");\n}\n";
    let (mut lib, mut sum) = (String::new(), "0".to_owned());
    for number in 0..modules {
        writeln!(lib, "pub mod m{number};").expect("to a string");
        write!(sum, " + made::m{number}::number()").expect("to a string");
        let module = format!(
            "pub fn number() -> usize {{ {number} }}\n\n#[cfg(test)]\nmod tests {{\n    #[test]\n    \
             fn is_small() {{ assert!(super::number() < {}); }}\n}}\n",
            number + 1
        );
        std::fs::write(dir.join(format!("src/m{number}.rs")), module).expect("a module");
    }
    let word = "include!(concat!(env!(\"OUT_DIR\"), \"/word.rs\"))";
    let main = format!("fn main() {{\n    println!(\"{{}} {{}}\", {word}, {sum});\n}}\n");
    for (name, text) in
        [("Cargo.toml", manifest), ("build.rs", script), ("src/lib.rs", lib.as_str()), ("src/main.rs", main.as_str())]
    {
        std::fs::write(dir.join(name), text).expect("a file of the crate");
    }
}

/// Runs cargo; returns the output of both streams.
fn cargo(dir: &Path, words: &[&str]) -> String {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).arg("--offline").current_dir(dir);
    // Cargo's variables in this process are about the crate of these tests.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && text != "CARGO_HOME" || text.starts_with("RUSTC_") || text == "RUSTFLAGS" {
            command.env_remove(&name);
        }
    }
    let outcome = run(&mut command, limit(LIMIT)).expect("cargo ends");
    assert!(outcome.status.success(), "{outcome}");
    outcome.stdout + &outcome.stderr
}
