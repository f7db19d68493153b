//! The worker threads that compute MD5 of several contents at the same time.
//!
//! - A content that arrives while no thread hashes begins at once; a later one joins at the next stride in a free lane.
//! - Few threads hash, regardless of the number of contents: a further one starts only when all lanes are taken, and at
//!   most half the cores are used.
//! - A content leaves when it is done and does not wait for the others.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::lanes::{self, LANES};
use super::rounds::{BLOCK, State};

/// Bytes of each lane that are hashed before another content can join.
const STRIDE: usize = 64 * 1024;

/// Whole blocks of one content to hash.
struct Job {
    state: State,
    blocks: Bytes,
    answer: oneshot::Sender<State>,
}

/// The waiting jobs, and the number of hashing threads.
struct HashWorkers {
    waiting: VecDeque<Job>,
    threads: usize,
}

/// The worker threads of this process. Processors are shared by the whole process, so there is only one set.
static CREW: Mutex<HashWorkers> = Mutex::new(HashWorkers { waiting: VecDeque::new(), threads: 0 });

fn crew() -> MutexGuard<'static, HashWorkers> {
    CREW.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The MD5 state after `blocks`, which are whole.
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

/// Queues a job for a lane. Returns whether the caller has to start another thread, which is counted already.
fn enter(job: Job) -> bool {
    let mut crew = crew();
    crew.waiting.push_back(job);
    // Without lanes each content needs its own thread.
    let needed = !lanes::pay() || crew.threads == 0 || (crew.waiting.len() > LANES && crew.threads < threads_max());
    crew.threads += usize::from(needed);
    needed
}

fn threads_max() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
}

/// Hashes until no job is left.
fn work() {
    let mut lanes = Vec::with_capacity(LANES);
    while take(&mut lanes) {
        stride(&mut lanes);
        for done in lanes.extract_if(.., |job| job.blocks.is_empty()) {
            // The request may have ended already.
            let _ = done.answer.send(done.state);
        }
    }
}

/// Fills free lanes with waiting jobs. If no lane is in use, the thread is counted out and `false` is returned.
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

/// Hashes one stride in each lane, or less if the shortest has less.
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
