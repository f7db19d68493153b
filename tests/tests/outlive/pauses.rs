//! The pause of a mount when its server changes: a program makes small calls constantly and measures their times.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause between two calls.
const INTERVAL: Duration = Duration::from_millis(1);
/// The duration up to which a call is not recorded.
const USUAL: Duration = Duration::from_millis(3);

/// Slow calls: when each began, and how long it took.
#[derive(Default)]
pub struct CallTimes(Mutex<Vec<(Instant, Duration)>>);

/// The longest call of each change of the server, and how long there was no server.
pub struct Pauses {
    calls: Vec<Duration>,
    servers: Vec<Duration>,
}

impl CallTimes {
    /// Writes a file, and creates and deletes a name, in turn: each call needs the server.
    pub fn measure(&self, dir: &Path, going: &AtomicBool) {
        let file = File::create(dir.join("pulse")).expect("a file");
        for number in 0_u64.. {
            if !going.load(Ordering::Relaxed) {
                return;
            }
            let begin = Instant::now();
            match number % 3 {
                0 => file.write_all_at(&number.to_le_bytes(), 0).expect("written"),
                1 => std::fs::create_dir(dir.join("name")).expect("made"),
                _ => std::fs::remove_dir(dir.join("name")).expect("removed"),
            }
            let took = begin.elapsed();
            if took > USUAL {
                self.0.lock().expect("no thread panics while it holds the lock").push((begin, took));
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// The longest call in progress during each of these times.
    pub fn pauses(&self, times: &[(Instant, Instant)]) -> Pauses {
        let slow = self.0.lock().expect("no thread panics while it holds the lock");
        let longest = |(begin, end): &(Instant, Instant)| {
            let within = slow.iter().filter(|(at, took)| at <= end && *at + *took >= *begin);
            within.map(|(_, took)| *took).max().unwrap_or(USUAL)
        };
        let servers = times.iter().map(|(begin, end)| *end - *begin).collect();
        Pauses { calls: times.iter().map(longest).collect(), servers }
    }
}

impl Pauses {
    /// Prints the result, for people.
    #[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
    pub fn print(mut self, what: &str) {
        println!("{what}, {} times", self.calls.len());
        println!("  pause of a program: {}", summary(&mut self.calls));
        println!("  until the next server was ready: {}", summary(&mut self.servers));
    }
}

fn summary(times: &mut [Duration]) -> String {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    format!("median {:.0} ms, p99 {:.0} ms, longest {:.0} ms", at(50), at(99), at(100))
}
