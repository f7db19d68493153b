//! `mount -o remount,ro` and `rw`: by mount(8) itself, by the helper, and by the command line.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;

use super::*;
use crate::support::cli::refusal;

fn remount(server: &Server, dir: &Path, how: &str) {
    json(server, &["mount", BUCKET, text(dir), "-o", &format!("remount,{how}")]);
}

/// Remounts by the kernel alone, as `mount -o remount` does where no helper is installed.
fn remount_past_the_server(dir: &Path, how: &str) -> Result<String, String> {
    look(&["mount", "-i", "-o", &format!("remount,{how}"), text(dir)])
}

#[track_caller]
fn takes_writes(server: &Server, dir: &Path, expected: bool) {
    let written = std::fs::write(dir.join("f"), "x").map_err(|error| error.kind());
    assert_eq!(written, if expected { Ok(()) } else { Err(ErrorKind::ReadOnlyFilesystem) });
    let shown = reported(server, "mounts");
    let shown = shown.iter().find(|mount| mount["dir"] == text(dir)).expect("it is listed");
    assert_eq!(shown["readOnly"], !expected, "{shown}");
}

#[test]
fn a_remount_survives_a_restart_in_kernel_and_server() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    mount(&server, &dir, &["-o", "noexec"]);
    takes_writes(&server, &dir, true);
    remount(&server, &dir, "ro");
    takes_writes(&server, &dir, false);
    assert!(look(&["findmnt", "-n", "-o", "OPTIONS", text(&dir)]).expect("mounted").contains("noexec"));
    server.kill9();
    server.restart();
    takes_writes(&server, &dir, false);
    remount(&server, &dir, "rw");
    takes_writes(&server, &dir, true);
    server.restart();
    takes_writes(&server, &dir, true);
    remount_past_the_server(&dir, "ro").expect("the kernel does it");
    takes_writes(&server, &dir, false);
    server.restart();
    takes_writes(&server, &dir, false);
    remount_past_the_server(&dir, "rw").expect("the kernel does it");
    takes_writes(&server, &dir, true);
    let open = OpenOptions::new().append(true).open(dir.join("f")).expect("opened");
    let busy = refusal(&server, &["mount", BUCKET, text(&dir), "-o", "remount,ro"], 1);
    assert!(busy.contains(&std::process::id().to_string()), "{busy}");
    drop(open);
    let other = refusal(&server, &["mount", BUCKET, text(&dir), "-o", "remount,ro,uid=5"], 1);
    assert!(other.contains("uid"), "{other}");
    takes_writes(&server, &dir, true);
    json(&server, &["umount", text(&dir)]);
    let gone = refusal(&server, &["mount", BUCKET, text(&dir), "-o", "remount,ro"], 1);
    assert!(gone.contains(text(&dir)), "{gone}");
}

#[test]
fn a_remount_never_widens_a_grant_or_a_snapshot() {
    need!(root_and_fuse());
    let (mut server, dir) = served();
    let frozen = folder(&server, "frozen");
    let (file, _) = alice(&server, "ro");
    json(&server, &["snapshot", "create", BUCKET, "monday"]);
    mount(&server, &dir, &["--credentials", text(&file)]);
    json(&server, &["mount", "monday", text(&frozen)]);
    for round in 0..2 {
        for mounted in [&dir, &frozen] {
            let refused = refusal(&server, &["mount", BUCKET, text(mounted), "-o", "remount,rw"], 1);
            assert!(refused.contains(text(mounted)), "{refused}");
            remount_past_the_server(mounted, "rw").expect("the kernel does it");
            takes_writes(&server, mounted, false);
            remount_past_the_server(mounted, "ro").expect("the kernel does it");
        }
        if round == 0 {
            server.restart();
        }
    }
}

#[test]
fn mount_finds_the_helper_for_a_remount() {
    need!(root_and_fuse());
    let (server, dir) = served();
    mount(&server, &dir, &[]);
    let helper = server.home().path().join("mount.fuse.amphora");
    symlink(server.cli(["status"]).get_program(), &helper).expect("a link");
    // As mount(8) calls it, with what it reads from /proc/self/mountinfo.
    let options = look(&["findmnt", "-n", "-o", "OPTIONS", text(&dir)]).expect("mounted");
    let admin = format!("admin-endpoint=unix://{}", server.home().socket("admin").display());
    let call = |how: &str| {
        let options = format!("{},remount,{how},{admin}", options.trim());
        look(&[text(&helper), &format!("amphora:{BUCKET}"), text(&dir), "-o", &options])
    };
    call("ro").expect("remounted");
    takes_writes(&server, &dir, false);
    call("rw").expect("remounted");
    takes_writes(&server, &dir, true);
}
