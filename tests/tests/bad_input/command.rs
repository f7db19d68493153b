//! Invalid commands: bad names, sizes and modes, and missing nouns.

use crate::support::cli::{account, json, listings, refusal};
use crate::support::*;

#[test]
fn refused_commands_give_advice_and_change_nothing() {
    let server = Server::start();
    json(&server, &["bucket", "create", "docs", "--quota", "1Gi"]);
    account(&server, "alice");
    json(&server, &["grant", "add", "docs", "--account", "alice", "--mode", "ro"]);
    json(&server, &["snapshot", "create", "docs", "docs-1"]);
    let before = listings(&server);
    let long = "x".repeat(64);
    let cases: &[(&[&str], i32, &[&str])] = &[
        // Names.
        (&["bucket", "create", "Docs"], 1, &["Docs", "lower-case"]),
        (&["bucket", "create", "do"], 1, &["\"do\"", "3 to 63"]),
        (&["bucket", "create", &long], 1, &["3 to 63"]),
        (&["bucket", "create", "192.168.0.1"], 1, &["IP address"]),
        (&["bucket", "create", "a/b"], 1, &["a/b"]),
        (&["bucket", "create", ""], 1, &["3 to 63"]),
        (&["account", "create", "a b"], 1, &["a b", "letters, digits"]),
        (&["account", "create", "a/b"], 1, &["a/b", "letters, digits"]),
        (&["account", "create", ""], 1, &["letters, digits"]),
        (&["account", "create", "anonymous"], 1, &["anonymous", "letters, digits"]),
        (&["account", "create", "*"], 1, &["\"*\"", "letters, digits"]),
        (&["snapshot", "create", "docs", "No"], 1, &["No"]),
        // Names that are taken.
        (&["bucket", "create", "docs"], 1, &["docs", "exists"]),
        (&["bucket", "create", "docs-1"], 1, &["docs-1", "snapshot"]),
        (&["account", "create", "alice"], 1, &["alice", "exists"]),
        (&["snapshot", "create", "docs", "docs"], 1, &["docs"]),
        // Absent resources.
        (&["bucket", "show", "absent"], 1, &["absent", "not exist"]),
        (&["bucket", "set", "absent", "--no-quota"], 1, &["absent"]),
        (&["bucket", "delete", "absent"], 1, &["absent"]),
        (&["bucket", "create", "new", "--from-snapshot", "absent"], 1, &["absent"]),
        (&["bucket", "create", "new", "--owner", "nobody"], 1, &["nobody"]),
        (&["account", "delete", "nobody"], 1, &["nobody"]),
        (&["key", "create", "--account", "nobody"], 1, &["nobody"]),
        (&["key", "rotate", "--account", "nobody"], 1, &["nobody"]),
        (&["key", "list", "--account", "nobody"], 1, &["nobody"]),
        (&["key", "delete", "AKNOBODY"], 1, &["AKNOBODY"]),
        (&["grant", "add", "absent", "--account", "alice", "--mode", "ro"], 1, &["absent"]),
        (&["grant", "add", "docs", "--account", "nobody", "--mode", "ro"], 1, &["nobody"]),
        (&["grant", "remove", "docs", "--account", "nobody"], 1, &["nobody"]),
        (&["grant", "list", "absent"], 1, &["absent"]),
        (&["snapshot", "create", "absent", "snap"], 1, &["absent"]),
        (&["snapshot", "delete", "absent"], 1, &["absent"]),
        (&["volume", "show", "absent"], 1, &["absent"]),
        // Resources that cannot be deleted.
        (&["account", "delete", "root"], 1, &["root", "cannot be deleted"]),
        // Paths.
        (&["mount", "docs", "/"], 1, &["/"]),
        (&["mount", "docs", "/nonexistent/dir"], 1, &["/nonexistent/dir", "make it first"]),
        (&["mount", "docs", "/nonexistent"], 1, &["/nonexistent", "make it first"]),
        (&["mount", "absent", "/tmp"], 1, &["absent"]),
        (&["mount", "docs", "/etc/hostname"], 1, &["/etc/hostname"]),
        (&["umount", "/nonexistent"], 1, &["/nonexistent", "amphora status"]),
        (&["umount", "/"], 1, &["/", "amphora status"]),
        (&["mount", "docs", "/tmp", "--credentials", "/nonexistent/key"], 1, &["/nonexistent/key"]),
        // Usage.
        (&["mount", "docs", "/tmp", "-o", "rsize=1"], 2, &["rsize=1", "prefix=P"]),
        (&["mount", "docs", "/tmp", "-o", "uid=-1"], 2, &["uid=-1"]),
        (&["bucket", "create", "new", "--quota", "10GB"], 2, &["10GB", "Gi"]),
        (&["bucket", "create", "new", "--quota", "-1"], 2, &["-1"]),
        (&["bucket", "create", "new", "--quota", "99Ei"], 2, &["16 EiB"]),
        (&["bucket", "set", "docs"], 2, &["--quota", "--no-quota", "--versioning"]),
        (&["bucket", "set", "docs", "--quota", "1Gi", "--no-quota"], 2, &["--no-quota"]),
        (&["bucket", "set", "docs", "--versioning", "maybe"], 2, &["maybe", "enabled"]),
        (&["grant", "add", "docs", "--account", "alice", "--mode", "admin"], 2, &["admin", "ro"]),
        (&["grant", "add", "docs", "--mode", "ro"], 2, &["--account"]),
        (&["buckets"], 2, &["buckets", "bucket"]),
        (&["bucket", "list", "--output", "xml"], 2, &["xml", "json"]),
        (&[], 2, &["Usage"]),
    ];
    for (args, status, words) in cases {
        let text = refusal(&server, args, *status);
        for word in *words {
            assert!(text.contains(word), "{args:?}: no {word:?} in {text:?}");
        }
    }
    assert_eq!(listings(&server), before);
}

#[test]
fn a_missing_server_is_named() {
    let mut server = Server::start();
    server.kill9();
    let socket = server.home().socket("admin").display().to_string();
    let text = refusal(&server, &["bucket", "list"], 1);
    assert!(text.contains(&socket) && text.contains("amphora serve") && text.contains("--admin-endpoint"), "{text}");
    let text = refusal(&server, &["check", "/nonexistent/data"], 1);
    assert!(text.contains("/nonexistent/data"), "{text}");
}

#[test]
fn a_check_refuses_an_open_store() {
    let server = Server::start();
    let data = server.home().data_dir().display().to_string();
    let text = refusal(&server, &["check", &data], 1);
    assert!(text.contains(&data) && text.contains("stop it first"), "{text}");
    json(&server, &["bucket", "create", "docs"]);
}
