//! Measures snapshots and clones of a bucket with 100 objects and of one with 100,000.
//!
//! `cargo run --release --ignore-rust-version -p objstore --example bench-snapshot -- [OBJECTS]...`

#![expect(clippy::print_stdout, reason = "a command line tool speaks on its streams")]

use std::error::Error;
use std::time::{Duration, Instant};

use objstore::Store;
use objstore::name::BucketName;
use objstore::store::{self, CreateBucket, PutObject, RootAttributes, Source, Versioning};
use tokio::task::JoinSet;

/// Objects of the two buckets, unless the command line names others.
const SIZES: [usize; 2] = [100, 100_000];
/// Of each a snapshot and a clone; the median counts.
const ROUNDS: usize = 101;
/// Puts under way at once: they share their syncs.
const PARALLEL: usize = 256;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let sizes: Vec<usize> = std::env::args().skip(1).map(|word| word.parse()).collect::<std::result::Result<_, _>>()?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };
    let folder = tempfile::tempdir()?;
    // Opening and closing block, so not inside the runtime.
    let store = objstore::open(store::Options::new(folder.path().join("data")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let stats = runtime.block_on(stats(&store, &sizes))?;
    store.close();
    println!("{:>10} {:>14} {:>14}", "objects", "snapshot ms", "clone ms");
    for (objects, figure) in sizes.iter().zip(&stats) {
        println!("{objects:>10} {:>14.3} {:>14.3}", figure.snapshot, figure.clone);
    }
    if let [first, .., last] = &stats[..] {
        println!("{:>10} {:>14.2} {:>14.2}", "ratio", last.snapshot / first.snapshot, last.clone / first.clone);
    }
    Ok(())
}

/// Median times of one bucket, in milliseconds.
struct Figure {
    snapshot: f64,
    clone: f64,
}

/// Fills all buckets, and then measures them in turn, so that what else the machine does slows all alike.
async fn stats(store: &Store, sizes: &[usize]) -> Result<Vec<Figure>> {
    let mut buckets = Vec::new();
    for objects in sizes {
        let bucket: BucketName = format!("bucket-{objects}").parse()?;
        fill(store, &bucket, *objects).await?;
        buckets.push((bucket, Vec::new(), Vec::new()));
    }
    for round in 0..ROUNDS {
        for (bucket, snapshots, clones) in &mut buckets {
            let (snapshot, clone) = measure(store, bucket, round).await?;
            snapshots.push(snapshot);
            clones.push(clone);
        }
    }
    let figure = |(_, snapshots, clones)| Figure { snapshot: median_ms(snapshots), clone: median_ms(clones) };
    Ok(buckets.into_iter().map(figure).collect())
}

/// A bucket with so many objects of 100 bytes, in folders of a thousand.
async fn fill(store: &Store, bucket: &BucketName, objects: usize) -> Result<()> {
    store.create_bucket(request(bucket.clone(), None)).await?;
    let mut puts = JoinSet::new();
    for number in 0..objects {
        if puts.len() == PARALLEL {
            puts.join_next().await.ok_or("a put is under way")???;
        }
        puts.spawn(put(store.clone(), bucket.clone(), format!("folder-{}/object-{number}", number / 1000)));
    }
    while let Some(done) = puts.join_next().await {
        done??;
    }
    Ok(())
}

async fn put(store: Store, bucket: BucketName, key: String) -> Result<()> {
    let content = store.stage(vec![7; 100].into()).await?;
    let put = PutObject {
        bucket,
        key: key.parse()?,
        content,
        etag: "0123456789abcdef0123456789abcdef".into(),
        headers: Default::default(),
        metadata: Default::default(),
        tags: Default::default(),
        checksums: Vec::new(),
        lock: Default::default(),
        access: Default::default(),
        condition: Default::default(),
    };
    store.put_object(put).await?;
    Ok(())
}

/// The time of a snapshot, and of a clone of it: each from the request until it is on disk. Between two snapshots an
/// object changes, as it does in life.
async fn measure(store: &Store, bucket: &BucketName, round: usize) -> Result<(Duration, Duration)> {
    put(store.clone(), bucket.clone(), format!("folder-0/changed-{round}")).await?;
    let name: BucketName = format!("{bucket}-snapshot-{round}").parse()?;
    let start = Instant::now();
    store.create_snapshot(bucket, &name).await?;
    let snapshot = start.elapsed();
    let clone = request(format!("{bucket}-clone-{round}").parse()?, Some(Source::Snapshot(name.to_string())));
    let start = Instant::now();
    store.create_bucket(clone).await?;
    Ok((snapshot, start.elapsed()))
}

fn request(name: BucketName, source: Option<Source>) -> CreateBucket {
    CreateBucket {
        name,
        owner: "root".into(),
        quota_bytes: None,
        versioning: Versioning::Disabled,
        source,
        attributes: Default::default(),
        root: RootAttributes::default(),
    }
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
