//! Owning the log of the store in PostgreSQL while it is moved: no server can take it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Options, Phase, Progress};
use crate::disk::{Disk as _, RealDisk};
use crate::error::{Error, Result};
use crate::meta::Meta;
use crate::meta::fjall_engine::{self, Checkpoints, Claimed, Place, Standby};
use crate::meta::log::Claim;
use crate::remote::BucketVault;

/// How long servers are kept out after each renewal.
const LEASE: Duration = Duration::from_secs(6);
/// How long the lease of a server that died is waited for: a live one renews its own every second.
const PATIENCE: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(250);
/// After how many bytes of log a checkpoint is made.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// Claims the log, and opens its store on a copy in `folder`, which may hold an older copy.
///
/// # Errors
/// [`Error::Unusable`] if a server owns it, or the folder has another store.
pub(super) fn open(options: &Options<'_>, folder: &Path) -> Result<Meta> {
    RealDisk::new().make_dir_all(folder)?;
    let vault = Arc::new(BucketVault::of_checkpoints(&options.content)?);
    let checkpoints = Some(Checkpoints { vault, log_bytes: CHECKPOINT_BYTES });
    let mut random = [0; 4];
    options.random.fill(&mut random);
    let server = format!("amphora migrate on {} ({:08x})", options.host, u32::from_be_bytes(random));
    // Every later write fails, and says why.
    let lost = Arc::new(|why: &str| tracing::warn!(why, "the log is no longer owned by this command"));
    let place = Place { checkpoints, ..Place::new(options.log.clone(), Claim { server, lease: LEASE }, lost) };
    let mut copy = Standby::open(folder, fjall_engine::Options::default(), place)?;
    claim(&mut copy)?;
    let tail = options.log.tail().map_err(|error| Error::Unusable { why: format!("reading the log: {error}") })?;
    loop {
        let followed = copy.follow()?;
        let (done, total) = (followed.at.min(tail.next - 1), tail.next - 1);
        (options.progress)(Progress { phase: Phase::Replay, done, total, bytes: 0 });
        if followed.entries == 0 || followed.at >= total {
            break;
        }
    }
    Ok(Meta::new(copy.into_engine()?))
}

fn claim(copy: &mut Standby) -> Result<()> {
    let begun = Instant::now();
    loop {
        match copy.claim()? {
            Claimed::Owner => return Ok(()),
            Claimed::Held { .. } if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Claimed::Held { server, .. } => {
                let why = format!("the server \"{server}\" owns this store: stop all its servers first");
                return Err(Error::Unusable { why });
            }
        }
    }
}
