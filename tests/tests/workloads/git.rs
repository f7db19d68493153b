//! git clone, work, gc and fsck on a mount: with a generated history, and with that of this repository.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::mounted;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(120);
const COMMITS: usize = 400;

here_and_elsewhere! {
    fn a_clone_is_intact_after_work_and_gc() {
        need!(root_and_fuse());
        let git = need!(required("git"));
        let (mount, server) = mounted();
        let git = Git(&git);
        let source = server.home().path().join("source.git");
        git.make_history(server.home().path(), &source);
        let clone = mount.path().join("clone");
        // Through git's own protocol: a local clone would only link files.
        let url = format!("file://{}", source.display());
        git.run(mount.path(), &["clone", "--quiet", &url, "clone"]);
        for step in 0..20 {
            std::fs::write(clone.join(format!("new-{step}")), format!("step {step}\n").repeat(1 + step * 50)).expect("new");
            git.run(&clone, &["add", "--all"]);
            git.run(&clone, &["commit", "--quiet", "--message", "work"]);
        }
        git.run(&clone, &["gc", "--quiet", "--aggressive", "--prune=now"]);
        git.run(&clone, &["fsck", "--full", "--strict"]);
        assert_eq!(git.run(&clone, &["status", "--porcelain"]), "");
        assert_eq!(git.run(&clone, &["rev-list", "--count", "HEAD"]).trim(), (COMMITS + 20).to_string());
        git.run(&clone, &["push", "--quiet", "origin", "HEAD:back"]);
        git.run(&source, &["fsck", "--full", "--strict"]);
        assert_eq!(git.run(&source, &["rev-parse", "back"]), git.run(&clone, &["rev-parse", "HEAD"]));
    }
}

here_and_elsewhere! {
    /// The repository of these sources: some thousand objects, in packs and loose, with real names and deltas.
    fn these_sources_are_cloned_intact() {
        need!(root_and_fuse());
        let git = need!(required("git"));
        let source = repo().join(".git");
        if !source.exists() {
            skip!("these sources are no git repository");
        }
        let (mount, _server) = mounted();
        let git = Git(&git);
        for round in 0..amount(1, 5) {
            let clone = mount.path().join(format!("clone-{round}"));
            let url = format!("file://{}", repo().display());
            git.run(mount.path(), &["clone", "--quiet", &url, &clone.display().to_string()]);
            git.run(&clone, &["fsck", "--full", "--strict"]);
            git.run(&clone, &["gc", "--quiet", "--prune=now"]);
            git.run(&clone, &["fsck", "--full", "--strict"]);
            assert_eq!(git.run(&clone, &["status", "--porcelain"]), "");
            assert_eq!(git.run(&clone, &["rev-parse", "HEAD"]), git.run(repo(), &["rev-parse", "HEAD"]));
            // A new checkout has the same files, although gc moved every object.
            git.run(&clone, &["rm", "-r", "--quiet", "--force", "."]);
            git.run(&clone, &["reset", "--hard", "--quiet"]);
            assert_eq!(git.run(&clone, &["status", "--porcelain"]), "");
            std::fs::remove_dir_all(&clone).expect("the clone is deleted");
        }
    }
}

struct Git<'a>(&'a Path);

impl Git<'_> {
    /// Runs git in `dir`, with no configuration but ours.
    fn run(&self, dir: &Path, words: &[&str]) -> String {
        let mut command = Command::new(self.0);
        // The sources may belong to a user other than the one that runs the tests.
        command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory");
        command.env("GIT_CONFIG_VALUE_0", "*");
        command.args(words).current_dir(dir).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "A").env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        run(&mut command, LIMIT).expect("git ends").ok()
    }

    /// A repository of some hundred commits, made with git-fast-import(1).
    fn make_history(&self, dir: &Path, source: &Path) {
        let stream = dir.join("history");
        std::fs::write(&stream, history(&mut Rng::new("workloads::git"))).expect("the history is written");
        self.run(dir, &["init", "--quiet", "--bare", "--initial-branch=main", &source.display().to_string()]);
        let import = format!("'{}' fast-import --quiet < ../history", self.0.display());
        let mut shell = Command::new("sh");
        drop(run(shell.args(["-c", &import]).current_dir(source), LIMIT).expect("the import ends").ok());
    }
}

fn history(rng: &mut Rng) -> String {
    let mut stream = String::new();
    for commit in 1..=COMMITS {
        let time = 1_700_000_000 + commit;
        let head = format!("commit refs/heads/main\nmark :{commit}\ncommitter A <a@example.org> {time} +0000\n");
        stream.push_str(&head);
        stream.push_str("data 5\nwork\n\n");
        if commit > 1 {
            writeln!(stream, "from :{}", commit - 1).expect("to a string");
        }
        for _ in 0..3 {
            let path = format!("d{}/e{}/f{}.txt", rng.below(6), rng.below(6), rng.below(10));
            let lines = 1 + rng.below(300);
            let body: String = (0..lines).map(|line| format!("{line} {:x}\n", rng.roll())).collect();
            write!(stream, "M 100644 inline {path}\ndata {}\n{body}\n", body.len()).expect("to a string");
        }
    }
    stream
}
