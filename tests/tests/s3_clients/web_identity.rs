//! Short-lived keys by STS: tokens of OpenID Connect for unchanged SDKs (`tests/python/web_identity.py`).

use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;
use proto::cosi::v1alpha1::{AuthenticationType, DriverCreateBucketRequest, DriverGrantBucketAccessRequest};

use crate::support::cli::account;
use crate::support::program::{client, run_checks};
use crate::support::*;

/// Runs the checks against a server that trusts an issuer, which the script serves.
fn run_checks_of(options: Options) {
    let Some(python) = python() else { skip!("boto3 is missing: run tests/setup.sh") };
    let dir = Home::new().expect("a folder");
    let certificate = need!(Certificate::new(dir.path()));
    let port = free_port();
    let issuer = format!("https://localhost:{port}");
    let authority = certificate.authority.to_str().expect("a path of ours").to_owned();
    let second = free_port();
    let more = dir.path().join("issuers.toml");
    let table =
        format!("[[issuer]]\nurl = \"https://localhost:{second}\"\naudience = \"second\"\nca = {authority:?}\n");
    std::fs::write(&more, table).expect("a file of issuers");
    let options = options.args(["--oidc-issuers", more.to_str().expect("a path of ours")]);
    let options = options.args(["--oidc-issuer", &issuer, "--oidc-audience", "amphora", "--oidc-ca", &authority]);
    let server = options.start();
    let bob = account(&server, "bob");
    let mut command = client(&python, &server);
    command.arg(repo().join("tests/python/web_identity.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("AMPHORA_ISSUER_PORT", port.to_string());
    command.env("AMPHORA_SECOND_ISSUER_PORT", second.to_string());
    command.env("AMPHORA_TLS_CERT", &certificate.certificate).env("AMPHORA_TLS_KEY", &certificate.key);
    command.env("AMPHORA_KEY_BOB", format!("{}:{}", bob.access_key_id, bob.secret_access_key));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    command.env("AMPHORA_COSI_ROLE", runtime.block_on(role_of_cosi(&server)));
    if let Ok(program) = required("s3clients") {
        command.env("AMPHORA_S3CLIENTS", program);
    }
    let cli = server.cli([] as [&str; 0]);
    command.env("AMPHORA_PROGRAM", cli.get_program());
    command.envs(cli.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run_checks(&mut command);
    let log = server.log();
    assert!(log.contains("AssumeRoleWithWebIdentity"), "each session is in the audit trail: {log}");
    assert!(!log.contains("eyJ"), "no token is logged");
}

/// Has COSI make a bucket, and an access to it for a ServiceAccount. Returns the role.
async fn role_of_cosi(server: &Server) -> String {
    let mut provisioner = ProvisionerClient::new(grpc::channel(&server.ready().socket("cosi")).await);
    let bucket = DriverCreateBucketRequest { name: "by-cosi".into(), ..Default::default() };
    provisioner.driver_create_bucket(bucket).await.expect("a bucket");
    let parameters = [("serviceAccountNamespace", "shop"), ("serviceAccountName", "cosi")];
    let access = DriverGrantBucketAccessRequest {
        bucket_id: "by-cosi".into(),
        name: "ba-1".into(),
        authentication_type: AuthenticationType::Iam.into(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    };
    let answer = provisioner.driver_grant_bucket_access(access).await.expect("an access").into_inner();
    let secrets = &answer.credentials["s3"].secrets;
    assert!(!secrets.contains_key("accessSecretKey"), "an access by a role has no key");
    secrets["roleArn"].clone()
}

/// A port for the issuer, which listens there once the server runs.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

#[test]
fn tokens_of_an_issuer_are_exchanged_for_short_lived_keys() {
    run_checks_of(Options::default());
}

#[test]
fn tokens_are_exchanged_over_tls() {
    run_checks_of(Options::default().tls());
}
