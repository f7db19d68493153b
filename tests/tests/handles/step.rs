//! One step of the random test, and its generation.

use rustix::io::Errno;

use super::model::{Model, Name};
use crate::support::Rng;
use crate::support::load::Content;

/// The refusal of a step.
#[derive(Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The error number from the mount.
    Errno(Errno),
    /// The error code from S3.
    S3(String),
}

impl Refusal {
    pub fn s3(code: &str) -> Self {
        Self::S3(code.to_owned())
    }

    pub fn quota() -> Self {
        Self::s3("QuotaExceeded")
    }

    /// Whether the refusal, by either interface, is for lack of space.
    pub fn is_quota(&self) -> bool {
        *self == Self::quota() || *self == Self::Errno(Errno::DQUOT)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl std::fmt::Debug for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errno(errno) => write!(f, "{errno} ({})", errno.raw_os_error()),
            Self::S3(code) => f.write_str(code),
        }
    }
}

/// The variants of renameat2(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Replace,
    NoReplace,
    Exchange,
}

/// A step. Keys and paths are the same strings.
#[derive(Clone, Debug)]
pub enum Step {
    Put { key: String, content: Content, metadata: Option<String> },
    Upload { key: String, content: Content },
    Copy { from: String, to: String },
    Delete { key: String },
    Write { path: String, content: Content },
    Append { path: String, content: Content },
    WriteAt { path: String, offset: usize, content: Content },
    Truncate { path: String, size: usize },
    Chmod { path: String, mode: u32 },
    SetTime { path: String, seconds: i64 },
    MakeDir { path: String },
    RemoveDir { path: String },
    Unlink { path: String },
    Symlink { path: String },
    Link { from: String, to: String },
    Rename { from: String, to: String, mode: Mode },
    Hold { path: String },
    Release,
}

/// The target of all symbolic links; no step creates it.
pub const NOWHERE: &str = "nowhere";

/// Names with bytes below and above that of the slash, for which the order of keys and of paths differs.
const COMPONENTS: [&str; 7] = ["a", "b", "a.b", "a-b", "a0", "é", "B c"];

impl Step {
    /// Draws a random step that is likely to succeed.
    pub fn generate(rng: &mut Rng, model: &Model) -> Self {
        let step = Self::generate_any(rng, model);
        // These calls would follow a symbolic link, and change a file elsewhere.
        let followed = match &step {
            Self::Write { path, .. } | Self::Chmod { path, .. } | Self::Hold { path } => Some(path),
            _ => None,
        };
        let link = |path: &String| matches!(model.names.get(path), Some(Name::Link(_)));
        if followed.is_some_and(link) { Self::Unlink { path: followed.expect("checked").clone() } } else { step }
    }

    fn generate_any(rng: &mut Rng, model: &Model) -> Self {
        let (path, there) = (fresh(rng), existing(rng, model));
        let content = |rng: &mut Rng| Content { len: length(rng), seed: rng.roll() };
        match rng.below(100) {
            0..14 => {
                let metadata = rng.chance(40).then(|| format!("value {}", rng.below(1000)));
                let key = if rng.chance(60) { path } else { there };
                Self::Put { key, content: content(rng), metadata }
            }
            14..17 => Self::Put { key: format!("{path}/"), content: Content { len: 0, seed: 0 }, metadata: None },
            17..19 => Self::Upload { key: path, content: content(rng) },
            19..23 => Self::Copy { to: if path == there { format!("{path}/a") } else { path }, from: there },
            23..32 => Self::Delete { key: there },
            32..35 => Self::Delete { key: format!("{there}/") },
            35..45 => Self::Write { path: if rng.chance(60) { path } else { there }, content: content(rng) },
            45..50 => Self::Append { path: there, content: content(rng) },
            50..56 => Self::WriteAt { path: there, offset: length(rng), content: content(rng) },
            56..60 => Self::Truncate { path: there, size: length(rng) },
            60..62 => Self::Chmod { path: there, mode: 0o400 + u32::try_from(rng.below(0o400)).expect("small") },
            62..64 => Self::SetTime {
                path: there,
                seconds: 1_000_000_000 + i64::try_from(rng.below(1 << 29)).expect("small"),
            },
            64..69 => Self::MakeDir { path },
            69..72 => Self::RemoveDir { path: there },
            72..77 => Self::Unlink { path: there },
            77..79 => Self::Symlink { path },
            79..82 => Self::Link { from: there, to: path },
            82..95 => {
                let mode = *rng.pick(&[Mode::Replace, Mode::Replace, Mode::Replace, Mode::NoReplace, Mode::Exchange]);
                let to = if rng.chance(60) { path } else { existing(rng, model) };
                Self::Rename { from: there, to, mode }
            }
            95..98 if model.held.len() < 3 => Self::Hold { path: there },
            _ => Self::Release,
        }
    }

    /// The step that writes the first `len` bytes of a refused one.
    pub fn shortened(&self, len: usize) -> Option<Self> {
        let cut = |content: &Content| Content { len, ..*content };
        match self {
            Self::Write { path, content } => {
                Some(Self::WriteAt { path: path.clone(), offset: 0, content: cut(content) })
            }
            Self::WriteAt { path, offset, content } => {
                Some(Self::WriteAt { path: path.clone(), offset: *offset, content: cut(content) })
            }
            Self::Append { path, content } => Some(Self::Append { path: path.clone(), content: cut(content) }),
            _ => None,
        }
        .filter(|_| len > 0)
    }

    /// The names that a step concerns.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Put { key, .. } | Self::Upload { key, .. } | Self::Delete { key } => vec![key],
            Self::Copy { from, to } | Self::Link { from, to } | Self::Rename { from, to, .. } => vec![from, to],
            Self::Write { path, .. }
            | Self::Append { path, .. }
            | Self::WriteAt { path, .. }
            | Self::Truncate { path, .. }
            | Self::Chmod { path, .. }
            | Self::SetTime { path, .. }
            | Self::MakeDir { path }
            | Self::RemoveDir { path }
            | Self::Unlink { path }
            | Self::Symlink { path }
            | Self::Hold { path } => vec![path],
            Self::Release => vec![],
        }
    }

    /// Applies the step to the model.
    pub fn apply(&self, model: &mut Model) -> Result<(), Refusal> {
        match self {
            Self::Put { key, content, metadata } => model.put(key, content.bytes(), metadata.clone()),
            Self::Upload { key, content } => model.upload(key, content.bytes()),
            Self::Copy { from, to } => model.copy(from, to),
            Self::Delete { key } => model.delete(key),
            Self::Write { path, content } => model.write(path, &content.bytes()),
            Self::Append { path, content } => model.append(path, &content.bytes()),
            Self::WriteAt { path, offset, content } => model.write_at(path, *offset, &content.bytes()),
            Self::Truncate { path, size } => model.truncate(path, *size),
            Self::Chmod { path, mode } => model.chmod(path, *mode),
            Self::SetTime { path, seconds } => model.set_time(path, *seconds),
            Self::MakeDir { path } => model.make_dir(path),
            Self::RemoveDir { path } => model.remove_dir(path),
            Self::Unlink { path } => model.unlink(path),
            Self::Symlink { path } => model.symlink(NOWHERE, path),
            Self::Link { from, to } => model.link(from, to),
            Self::Rename { from, to, mode } => model.rename(from, to, *mode),
            Self::Hold { path } => model.existing_file(path).map(|id| model.held.push(id)),
            Self::Release => {
                if !model.held.is_empty() {
                    model.held.remove(0);
                    model.collect();
                }
                Ok(())
            }
        }
    }
}

/// A random path that may exist or not.
pub fn fresh(rng: &mut Rng) -> String {
    let depth = 1 + rng.below(3);
    let components: Vec<&str> = (0..depth).map(|_| *rng.pick(&COMPONENTS)).collect();
    components.join("/")
}

/// A random path that exists, if there is any.
fn existing(rng: &mut Rng, model: &Model) -> String {
    match model.names.len() {
        0 => fresh(rng),
        len => {
            let key = model.names.keys().nth(rng.below(len)).expect("within");
            key.trim_end_matches('/').to_owned()
        }
    }
}

/// Lengths around the limits at which the store keeps content in another place: 4 KiB and 128 KiB.
fn length(rng: &mut Rng) -> usize {
    match rng.below(20) {
        0..2 => 0,
        2..10 => rng.below(4097),
        10..18 => rng.below(20_000),
        18 => 4095 + rng.below(3),
        _ => 120_000 + rng.below(20_000),
    }
}
