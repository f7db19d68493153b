//! Commands in the documents have to exist: `amphora …` with its flags, and `cargo …`.

use std::collections::{BTreeSet, HashMap};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::links::spans;
use super::tree::{File, Finding};

/// Commands of cargo and of its usual extensions, and a toolchain.
const CARGO: [&str; 10] = ["+nightly", "build", "check", "clippy", "deny", "fmt", "fuzz", "install", "run", "test"];

/// Commands that do not exist, and flags that a command does not have.
pub fn unknown(files: &[File], program: &Path) -> Vec<Finding> {
    let aliases = files.iter().find(|file| file.path == ".cargo/config.toml");
    let aliases: BTreeSet<&str> = aliases.iter().flat_map(|file| file.lines()).filter_map(alias).collect();
    let mut help = Help { program, texts: HashMap::new() };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md") && !file.is_history()) {
        for (number, command) in commands(file) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let wrong = match words[..] {
                ["amphora", "help", ..] => None,
                ["amphora", ref words @ ..] => help.check_command(words),
                ["cargo", command, ..] if !CARGO.contains(&command) && !aliases.contains(command) => {
                    Some(format!("`cargo {command}` does not exist"))
                }
                _ => None,
            };
            findings.extend(wrong.map(|wrong| file.finding(number, wrong)));
        }
    }
    findings
}

/// The name that a line of `.cargo/config.toml` gives to a command.
fn alias((_, line): (usize, &str)) -> Option<&str> {
    line.split_once(" = \"").map(|(name, _)| name).filter(|name| name.chars().all(|c| c.is_ascii_lowercase()))
}

/// The commands in code blocks, line by line, and in code spans.
fn commands(file: &File) -> Vec<(usize, &str)> {
    let mut code = false;
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if code {
            let line = line.split(" #").next().unwrap_or_default();
            found.extend(line.split("   ").flat_map(|part| part.split("&&")).map(|command| (number, command.trim())));
        } else {
            found.extend(spans(line).map(|span| (number, span)));
        }
    }
    found.retain(|(_, command)| command.starts_with("amphora ") || command.starts_with("cargo "));
    found
}

/// The help texts of a program's commands.
struct Help<'a> {
    program: &'a Path,
    texts: HashMap<String, Option<String>>,
}

impl Help<'_> {
    /// The fault of the words after `amphora`, if there is one.
    fn check_command(&mut self, words: &[&str]) -> Option<String> {
        let named = words.iter().take_while(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-')).count();
        // An argument, such as the name of a bucket, may look like a command.
        let text = (0..=named).rev().find_map(|count| Some((count, self.text(&words[..count])?)));
        let (count, text) = text?;
        let usage = text.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
        if count < named && usage.ends_with("<COMMAND>") && !words[count].starts_with('-') {
            return Some(format!("`amphora {}` does not exist", words[..=count].join(" ")));
        }
        let flags = words.iter().map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-'));
        let flags = flags.filter(|word| word.starts_with("--")).map(|flag| flag.split('=').next().unwrap_or_default());
        let unknown = flags.filter(|flag| flag.len() > 2).find(|flag| !text.contains(flag))?;
        Some(format!("`amphora {}` has no {unknown}", words[..count].join(" ")))
    }

    /// The help of a command, if it exists.
    fn text(&mut self, command: &[&str]) -> Option<String> {
        let program = self.program;
        let ask = || {
            let asked = Command::new(program).arg0("amphora").args(command).arg("--help").output();
            let done = asked.expect("the program runs");
            // A command takes an argument without a word; only the name of the command shows which one answered.
            let text = String::from_utf8_lossy(&done.stdout).into_owned();
            let usage = format!("Usage: amphora {}", command.join(" "));
            (done.status.success() && text.contains(usage.trim_end())).then_some(text)
        };
        self.texts.entry(command.join(" ")).or_insert_with(ask).clone()
    }
}

#[test]
fn commands_are_found_in_blocks_and_spans() {
    let text =
        "Run `amphora status`, not `amphorae`.\n```\ncd a && cargo t        amphora umount DIR    # amphora x\n```\n";
    let file = File { path: "docs/a.md".to_owned(), text: text.to_owned() };
    assert_eq!(commands(&file), [(1, "amphora status"), (3, "cargo t"), (3, "amphora umount DIR")]);
}
