//! What a server with metadata in PostgreSQL refuses, and why.

use super::shared::Shared;
use crate::support::*;

fn refusal(options: tests::server::Options) -> String {
    options.try_start().expect_err("it is refused")
}

#[test]
fn what_would_lose_data_is_refused_with_the_reason_and_without_the_password() {
    let shared = need!(Shared::new());
    let url = shared.postgres.url();
    let replicated = refusal(shared.options_with(&url));
    assert!(replicated.contains("synchronous_standby_names is empty") && replicated.contains("--single-postgres"));
    shared.postgres.sql("CREATE ROLE secured LOGIN SUPERUSER PASSWORD 'right-hush'");
    shared.postgres.require_passwords_of("secured");
    let secured = url.replace("user=postgres", "user=secured");
    let with =
        |password: &str| shared.options_with(&format!("{secured}&password={password}")).args(["--single-postgres"]);
    let wrong = refusal(with("wrong-hush"));
    assert!(wrong.contains("PostgreSQL refuses the connection") && wrong.contains("password"), "{wrong}");
    assert!(!wrong.contains("hush"), "{wrong}");
    let missing = refusal(shared.options_with(&secured).args(["--single-postgres"]));
    assert!(missing.contains("password"), "{missing}");

    let mut server = shared.options_with(&secured).args(["--single-postgres"]).env("PGPASSWORD", "right-hush").start();
    assert!(!server.log().contains("hush"));
    assert_eq!(server.terminate().code(), Some(0));

    // Another log at the address of the first: the copy is refused, and kept.
    shared.postgres.sql("UPDATE amphora.owner SET id = decode('00112233445566778899aabbccddeeff', 'hex')");
    let other = server.try_restart().expect_err("it is another log");
    assert!(other.contains("is a copy of the log"), "{other}");
    shared.postgres.sql("UPDATE amphora.version SET version = 99");
    let newer = server.try_restart().expect_err("a newer program wrote it");
    assert!(newer.contains("of version 99") && newer.contains("use the program that made them"), "{newer}");
}
