//! What is refused, and why; and TLS.

use super::cluster::{Cluster, need_cluster};
use super::{claim, settings};
use crate::error::Error;
use crate::log::Log;
use crate::postgres::{Copies, Postgres, Settings};

fn refusal(settings: Settings) -> String {
    match Postgres::open(settings) {
        Err(Error::Unusable { why }) => why,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_postgresql_that_could_lose_entries_is_refused_with_the_reason() {
    let cluster = need_cluster!(&["fsync=off"]);
    let replicated = Settings { copies: Copies::Replicated, ..settings(&cluster, 0) };
    for settings in [settings(&cluster, 0), replicated.clone()] {
        assert!(refusal(settings).contains("fsync"));
    }
    cluster.kill9();
    let unreachable = Postgres::open(replicated.clone()).err().expect("it is down");
    assert!(matches!(unreachable, Error::Unavailable { .. }), "{unreachable:?}");
}

#[test]
fn tables_of_a_newer_version_and_rights_that_are_missing_are_refused() {
    let cluster = need_cluster!(&[]);
    let log = Postgres::open(settings(&cluster, 0)).unwrap();
    let tenure = log.fence(&claim("a")).unwrap();
    drop(Postgres::open(settings(&cluster, 0)).unwrap());
    assert_eq!(cluster.sql("SELECT version FROM amphora.version"), "1");
    cluster.sql("UPDATE amphora.version SET version = 2");
    assert!(refusal(settings(&cluster, 0)).contains("of version 2, this program knows versions up to 1"));
    for statement in ["UPDATE amphora.version SET version = 1", "CREATE ROLE stranger LOGIN", "CREATE DATABASE other"] {
        cluster.sql(statement);
    }
    let url = cluster.url().replace("user=postgres", "user=stranger");
    let stranger = |url: &str| Settings { copies: Copies::Single, ..Settings::parse(url, &|_| None).unwrap() };
    assert!(refusal(stranger(&url.replace("///postgres?", "///other?"))).contains("grant the user the right"));
    let unread = Postgres::open(stranger(&url)).err().expect("it may not read the tables");
    assert!(matches!(unread, Error::Unusable { .. } | Error::Unavailable { .. }), "{unread:?}");
    assert_eq!(log.tail().unwrap(), tenure.tail);
}

#[test]
fn tls_verifies_the_server_and_a_password_is_not_sent_otherwise() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let cluster = need_cluster!(&[]);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    cluster.write("server.crt", &made.cert.pem());
    cluster.write("server.key", &made.signing_key.serialize_pem());
    cluster.sql("CREATE ROLE secured LOGIN SUPERUSER PASSWORD 'hush-hush'");
    let rules = "hostssl all secured 127.0.0.1/32 scram-sha-256\nlocal all all trust\n";
    cluster.write("pg_hba.conf", rules);
    cluster.kill9();
    let cluster = cluster.with(&["ssl=on", "listen_addresses=127.0.0.1", &format!("port={port}")]);
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str, pem: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string().replace('/', "%2F")
    };
    let (right, wrong) = (file("right.pem", &made.cert.pem()), file("wrong.pem", &other.cert.pem()));
    let open = |host: &str, password: &str, authority: &str| {
        let url = format!("postgres://secured:{password}@{host}:{port}/postgres?sslrootcert={authority}");
        Postgres::open(Settings { copies: Copies::Single, ..Settings::parse(&url, &|_| None).unwrap() })
    };
    let log = open("localhost", "hush-hush", &right).unwrap();
    log.fence(&claim("a")).unwrap();
    for (host, authority) in [("localhost", &wrong), ("127.0.0.1", &right)] {
        let refused = open(host, "hush-hush", authority).err().expect("refused");
        assert!(matches!(refused, Error::Unavailable { .. }) && !refused.to_string().contains("hush"), "{refused:?}");
    }
    let refused = open("localhost", "hush", &right).err().expect("refused");
    assert!(
        matches!(&refused, Error::Unusable { why } if why.contains("password") && !why.contains("hush")),
        "{refused:?}"
    );
    let empty = open("localhost", "hush-hush", &file("empty.pem", "")).err().expect("no certificate");
    assert!(matches!(empty, Error::Unusable { .. }), "{empty:?}");
    drop(cluster);
}
