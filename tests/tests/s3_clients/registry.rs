//! Docker's registry with its images in a bucket, pushed and pulled over the registry's HTTP API.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::program::client;
use crate::support::*;

/// How long the registry may take to listen.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running registry; dropping it ends the process.
struct Registry {
    process: Child,
    url: String,
}

impl Registry {
    #[track_caller]
    fn start(program: &Path, server: &Server) -> Self {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let Credentials { access_key_id, secret_access_key } = server.credentials();
        let text = format!(
            "version: 0.1\nlog:\n  level: warn\nstorage:\n  s3:\n    accesskey: {access_key_id}\n    \
             secretkey: {secret_access_key}\n    region: us-east-1\n    regionendpoint: {}\n    forcepathstyle: true\n    \
             secure: false\n    bucket: images\n    chunksize: 5242880\n  delete:\n    enabled: true\n  redirect:\n    \
             disable: true\nhttp:\n  addr: 127.0.0.1:{port}\n",
            server.s3()
        );
        let config = server.home().path().join("registry.yml");
        std::fs::write(&config, text).expect("a configuration");
        let log = std::fs::File::create(server.home().path().join("registry.log")).expect("a log");
        let mut command = client(program, server);
        command.arg("serve").arg(&config).env("OTEL_TRACES_EXPORTER", "none");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let process = command.spawn().expect("the registry starts");
        let registry = Self { process, url: format!("http://127.0.0.1:{port}") };
        let up = wait_until(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(up.is_some(), "{}", log_of(server));
        registry
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn log_of(server: &Server) -> String {
    std::fs::read_to_string(server.home().path().join("registry.log")).unwrap_or_default()
}

fn push_and_pull(program: &Path) {
    let python = python().expect("the caller asked");
    let server = Server::start();
    make_bucket(&server, "images", &[]);
    for step in ["push", "pull", "delete"] {
        // Each step uses a new registry process, which knows only the content of the bucket.
        let registry = Registry::start(program, &server);
        let script = repo().join("tests/python/registry.py");
        let outcome = run(client(&python, &server).arg(script).arg(&registry.url).arg(step), Duration::from_secs(120));
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}\n{}", log_of(&server)));
        assert!(outcome.status.success(), "{outcome}\n{}", log_of(&server));
    }
}

#[test]
fn an_image_is_pushed_in_pieces_pulled_by_another_registry_and_deleted() {
    let program = need!(required("registry"));
    need!(python().ok_or("boto3 is not installed: run tests/setup.sh"));
    push_and_pull(&program);
}
