//! Where contents that are hashed at the same time meet.
//!
//! - Who comes while nobody hashes begins at once; who comes later joins in at the next stride, into a free lane.
//! - Few threads hash, whatever the number of contents: a further one begins only when all lanes are taken, and not
//!   more than half the cores do.
//! - A content leaves when it is done; its answer does not wait for those hashed beside it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::lanes::{self, LANES};
use super::rounds::{BLOCK, State};

/// Bytes of each lane that are hashed before others can join.
const STRIDE: usize = 64 * 1024;

/// Whole blocks of a content to be hashed.
struct Job {
    state: State,
    blocks: Bytes,
    answer: oneshot::Sender<State>,
}

/// Those who wait, and how many threads hash.
struct Crew {
    waiting: VecDeque<Job>,
    threads: usize,
}

/// The crew of this process: it shares out processors, of which there are no more for a second one.
static CREW: Mutex<Crew> = Mutex::new(Crew { waiting: VecDeque::new(), threads: 0 });

fn crew() -> MutexGuard<'static, Crew> {
    CREW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state after `blocks`, which are whole.
pub(super) async fn hash(state: State, blocks: Bytes) -> Result<State, RecvError> {
    if blocks.is_empty() {
        return Ok(state);
    }
    let (answer, answered) = oneshot::channel();
    if enter(Job { state, blocks, answer }) {
        tokio::task::spawn_blocking(work);
    }
    answered.await
}

/// Lets a job wait for a lane; whether a further thread is needed, which is counted already.
fn enter(job: Job) -> bool {
    let mut crew = crew();
    crew.waiting.push_back(job);
    // Without lanes each content needs a thread of its own.
    let needed = !lanes::pay() || crew.threads == 0 || (crew.waiting.len() > LANES && crew.threads < threads_max());
    crew.threads += usize::from(needed);
    needed
}

fn threads_max() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// Hashes until nobody waits.
fn work() {
    let mut lanes = Vec::with_capacity(LANES);
    while take(&mut lanes) {
        stride(&mut lanes);
        for done in lanes.extract_if(.., |job| job.blocks.is_empty()) {
            // Who asked may have gone.
            let _ = done.answer.send(done.state);
        }
    }
}

/// Fills free lanes with those who wait; without anybody in a lane, this thread is counted out.
fn take(lanes: &mut Vec<Job>) -> bool {
    let mut crew = crew();
    let room = if lanes::pay() { LANES } else { 1 };
    let count = crew.waiting.len().min(room - lanes.len());
    lanes.extend(crew.waiting.drain(..count));
    if lanes.is_empty() {
        crew.threads -= 1;
    }
    !lanes.is_empty()
}

/// Hashes a stride in each lane, or as much as the shortest has.
fn stride(lanes: &mut [Job]) {
    let len = lanes.iter().map(|job| job.blocks.len()).min().unwrap_or(0).min(STRIDE) / BLOCK * BLOCK;
    let mut states: Vec<State> = lanes.iter().map(|job| job.state).collect();
    let contents: Vec<&[u8]> = lanes.iter().map(|job| &job.blocks[..len]).collect();
    lanes::run(&mut states, &contents);
    for (job, state) in lanes.iter_mut().zip(states) {
        job.state = state;
        drop(job.blocks.split_to(len));
    }
}
