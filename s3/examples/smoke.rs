#![expect(missing_docs, clippy::print_stdout, reason = "temporary")]
use objstore::store::{Options, Secret};
#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_env_filter(format!("info,{}", s3::LOG_DIRECTIVE)).with_writer(std::io::stderr).init();
    let dir = std::env::args().nth(1).unwrap();
    let mut options = Options::new(&dir);
    options.root_key = Some(("AKIAROOT".into(), Secret::new("rootsecretrootsecret")));
    let store = tokio::task::spawn_blocking(move || objstore::Store::open(options)).await.unwrap().unwrap();
    let mut registry = prometheus_client::registry::Registry::default();
    let config = s3::Config::new("us-east-1", s3::Metrics::new(&mut registry));
    if store.accounts().unwrap().len() < 2 {
        store.create_account("alice", false).await.unwrap();
    }
    let key = store.ensure_key("alice").await.unwrap();
    println!("alice {} {}", key.id, key.secret.reveal());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:9123").await.unwrap();
    let admin = store.clone();
    let rt = tokio::runtime::Handle::current();
    std::thread::spawn(move || rt.block_on(async {
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["grant", bucket, mode] => println!("{:?}", admin.add_grant(&bucket.parse().unwrap(), "alice", mode.parse().unwrap()).await),
                ["revoke", id] => println!("{:?}", admin.delete_key(id).await),
                ["snap", bucket, name] => println!("{:?}", admin.create_snapshot(&bucket.parse().unwrap(), &name.parse().unwrap()).await),
                ["quota", bucket, bytes] => println!("{:?}", admin.set_bucket(&bucket.parse().unwrap(), objstore::store::SetBucket{quota_bytes: Some(Some(bytes.parse().unwrap())), ..Default::default()}).await),
                ["usage", bucket] => println!("{:?}", admin.usage(&bucket.parse().unwrap())),
                _ => {}
            }
        }
    }));
    s3::Server::new(store.clone(), config).unwrap().serve(listener, async { let _ = tokio::signal::ctrl_c().await; }).await.unwrap();
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    println!("{text}");
    tokio::task::spawn_blocking(move || store.close()).await.unwrap();
}
