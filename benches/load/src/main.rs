//! A load generator for S3 servers: a number of clients send one kind of request, for a time or up to a count. It
//! prints the result as one line of JSON.
//!
//! - Every client has a thread and a kept-alive connection. Requests are signed (SigV4); bodies are signed only with
//!   `put-signed`.
//! - No two bodies have 64 KiB in common, so that no server can store equal content once.
//! - Latencies are measured by the clients; processor time and memory are those of the process of `--pid`.

mod client;
mod clock;
mod options;
mod process;
mod sign;
mod work;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use options::Options;
use work::Work;

/// The state that all clients share.
#[derive(Default)]
struct Shared {
    taken: AtomicU64,
    stop: AtomicBool,
}

/// The results of one client.
#[derive(Default)]
struct Done {
    took: Vec<Duration>,
    items: u64,
    bytes: u64,
    errors: u64,
    first_error: Option<String>,
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("load: {why}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let shared = Shared::default();
    let before = options.pid.map(process::usage).unwrap_or_default();
    let start = Instant::now();
    let done: Vec<Done> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..options.clients).map(|_| scope.spawn(|| client(&options, &shared))).collect();
        clients.into_iter().map(|client| client.join().unwrap_or_default()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let after = options.pid.map(process::usage).unwrap_or_default();
    let failed = report(&options, done, seconds, after.cpu_ms - before.cpu_ms, after.peak_mib);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn client(options: &Options, shared: &Shared) -> Done {
    let (mut work, mut done) = (Work::new(options), Done::default());
    let deadline = Instant::now() + options.time;
    while !shared.stop.load(Ordering::Relaxed) && Instant::now() < deadline {
        let number = shared.taken.fetch_add(1, Ordering::Relaxed);
        if options.count.is_some_and(|count| number >= count) {
            break;
        }
        let start = Instant::now();
        match work.step(number) {
            Ok(step) => {
                done.took.push(start.elapsed());
                done.items += step.items;
                done.bytes += step.bytes;
            }
            Err(why) => {
                done.errors += 1;
                done.first_error.get_or_insert(why);
                // The run ends early if the server refuses everything.
                if done.errors > 20 {
                    shared.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }
    done
}

fn report(options: &Options, clients: Vec<Done>, seconds: f64, cpu_ms: f64, peak_mib: f64) -> bool {
    let mut all = Done::default();
    for one in clients {
        all.took.extend(one.took);
        all.items += one.items;
        all.bytes += one.bytes;
        all.errors += one.errors;
        all.first_error = all.first_error.or(one.first_error);
    }
    all.took.sort_unstable();
    let requests = all.took.len();
    let quantile = |share: f64| {
        let at = ((requests as f64 * share) as usize).min(requests.saturating_sub(1));
        all.took.get(at).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let error = all.first_error.unwrap_or_default().replace(['"', '\\', '\n'], "'");
    println!(
        "{{\"operation\":\"{}\",\"requests\":{requests},\"errors\":{},\"seconds\":{seconds:.4},\"per_second\":{:.2},\
         \"items_per_second\":{:.1},\"mib_per_second\":{:.2},\"p50_ms\":{:.4},\"p99_ms\":{:.4},\"cpu_ms\":{:.5},\
         \"peak_mib\":{peak_mib:.1},\"error\":\"{error}\"}}",
        options.operation,
        all.errors,
        requests as f64 / seconds,
        all.items as f64 / seconds,
        all.bytes as f64 / seconds / f64::from(1 << 20),
        quantile(0.5),
        quantile(0.99),
        cpu_ms / requests.max(1) as f64,
    );
    requests == 0 || all.errors > 0
}
