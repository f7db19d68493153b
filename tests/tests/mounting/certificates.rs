//! A volume listener that asks other machines for certificates.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use tests::tls::Certificate;

use super::{BUCKET, folder, text};
use crate::support::cli::{cli, json};
use crate::support::*;

#[test]
fn a_machine_without_a_certificate_of_the_authority_mounts_nothing() {
    need!(root_and_fuse());
    let files = Home::new().expect("a folder");
    let authority = need!(Certificate::new(files.path()));
    let node = authority.node("a-node").expect("a certificate");
    let asks = ["--volume-listen", "127.0.0.1:0", "--volume-client-ca", text(&authority.authority)];
    let server = Options::default().args(asks).start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    let (store, key) = (server.ready().word("volume"), server.ready().word("credentials"));
    let mount = ["mount", BUCKET, text(&dir), "--server", store, "--credentials", key];
    let with = |certificate: &Certificate| {
        let files = ["--cert", text(&certificate.certificate), "--key", text(&certificate.key)].map(str::to_owned);
        mount.iter().map(|word| (*word).to_owned()).chain(files).collect::<Vec<_>>()
    };
    let words = |args: &[String]| args.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
    let run_with = |certificate: &Certificate| {
        let args = with(certificate);
        cli(&server, &words(&args).split('\n').collect::<Vec<_>>())
    };

    let bare = cli(&server, &mount);
    assert!(!bare.status.success() && bare.stderr.contains("--cert and --key"), "{bare}");
    let foreign = Home::new().expect("a folder");
    let foreign = Certificate::new(foreign.path()).and_then(|other| other.node("a-node")).map(|made| (foreign, made));
    let (_kept, foreign) = foreign.expect("another authority");
    let refused = run_with(&foreign);
    assert!(!refused.status.success() && refused.stderr.contains("not of the authority"), "{refused}");
    std::fs::set_permissions(&node.key, Permissions::from_mode(0o644)).expect("changed");
    let refused = run_with(&node);
    assert!(!refused.status.success() && refused.stderr.contains("open to others"), "{refused}");
    std::fs::set_permissions(&node.key, Permissions::from_mode(0o600)).expect("changed");
    let half = cli(&server, &[&mount[..], &["--cert", text(&node.certificate)]].concat());
    assert!(half.status.code() == Some(2) && half.stderr.contains("--key"), "{half}");

    let args = with(&node);
    json(&server, &args.iter().map(String::as_str).collect::<Vec<_>>());
    std::fs::write(dir.join("a file"), "content").expect("written");
    json(&server, &["umount", text(&dir)]);
}

#[test]
fn an_authority_for_nodes_is_checked_at_the_start() {
    let files = Home::new().expect("a folder");
    let file = files.path().join("ca.pem");
    for (flags, content, why) in [
        (vec!["--volume-client-ca", text(&file)], None, "--volume-listen"),
        (vec!["--volume-listen", "127.0.0.1:0", "--volume-client-ca", text(&file)], None, "cannot be read"),
        (vec!["--volume-listen", "127.0.0.1:0", "--volume-client-ca", text(&file)], Some("no PEM"), "no certificate"),
    ] {
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }
        let refused = Options::default().args(flags).try_start().expect_err("refused");
        assert!(refused.contains("--volume-client-ca") && refused.contains(why), "{refused}");
    }
}
