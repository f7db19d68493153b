//! The possible content of a file after a crash.
//!
//! - Each change creates an *image*: the file's content after it. Images before the last sync no longer count.
//! - Unsynced bytes may come from any image since the sync, each byte on its own, and the size lies between theirs;
//!   where an image is shorter than that, its bytes are zeros. Nothing else is allowed.

use std::sync::Arc;

/// A file of the model.
pub(super) type FileId = usize;

/// The images of all files.
#[derive(Clone, Default)]
pub(super) struct Contents(Vec<History>);

#[derive(Clone)]
struct History {
    images: Vec<Arc<Vec<u8>>>,
    synced: usize,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Killed, or closed in order: what was handed to the system is there.
    Kill,
    /// With the power.
    PowerCut,
}

impl Contents {
    /// A file with content that is on disk.
    pub(super) fn add(&mut self, bytes: Arc<Vec<u8>>) -> FileId {
        self.0.push(History { images: vec![bytes], synced: 0 });
        self.0.len() - 1
    }

    /// Another with the same content, on disk.
    pub(super) fn copy(&mut self, file: FileId) -> FileId {
        let bytes = self.latest(file).clone();
        self.add(bytes)
    }

    /// Another with the same content, of which as much is on disk.
    pub(super) fn share(&mut self, file: FileId) -> FileId {
        self.0.push(self.0[file].clone());
        self.0.len() - 1
    }

    /// A change of a file; its number.
    pub(super) fn change(&mut self, file: FileId, bytes: Vec<u8>) -> usize {
        self.0[file].images.push(Arc::new(bytes));
        self.0[file].images.len() - 1
    }

    /// All changes of a file are on disk.
    pub(super) fn sync(&mut self, file: FileId) {
        self.0[file].synced = self.0[file].images.len() - 1;
    }

    /// All changes of all files are.
    pub(super) fn sync_all(&mut self) {
        (0..self.0.len()).for_each(|file| self.sync(file));
    }

    /// These, of which no more is on disk for certain than of `before`.
    pub(super) fn not_yet_synced(mut self, before: &Self) -> Self {
        for (history, before) in self.0.iter_mut().zip(&before.0) {
            history.synced = before.synced;
        }
        self
    }

    /// The content now.
    pub(super) fn latest(&self, file: FileId) -> &Arc<Vec<u8>> {
        &self.0[file].images[self.0[file].images.len() - 1]
    }

    /// Forgets all but one image, which is on disk.
    pub(super) fn settle(&mut self, file: FileId, bytes: &[u8]) {
        let history = &mut self.0[file];
        let known = history.images.iter().rev().find(|image| image[..] == *bytes).cloned();
        *history = History { images: vec![known.unwrap_or_else(|| Arc::new(bytes.to_vec()))], synced: 0 };
    }

    /// What is wrong with bytes found in a file after a crash; `image` is the one that the metadata found belongs to.
    pub(super) fn fault(&self, file: FileId, image: usize, end: End, found: &[u8]) -> Option<String> {
        let history = &self.0[file];
        let first = if end == End::PowerCut { image.min(history.synced) } else { image };
        let images = &history.images[first.min(history.images.len() - 1)..];
        if images.iter().any(|image| image[..] == *found) {
            return None;
        }
        let sizes = images.iter().map(|image| image.len());
        let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
        if !(least..=most).contains(&found.len()) {
            return Some(format!("{} bytes, not {least} to {most}", found.len()));
        }
        let foreign = |at: usize| !images.iter().any(|image| image.get(at).copied().unwrap_or(0) == found[at]);
        let wrong: Vec<usize> = (0..found.len()).filter(|at| foreign(*at)).collect();
        let (from, to) = (wrong.first()?, wrong.last()?);
        let was: Vec<_> = images.iter().map(|image| image.get(*from).copied()).collect();
        Some(format!("bytes {from} to {to} of {}: {} where {was:?} was written", found.len(), found[*from]))
    }
}
