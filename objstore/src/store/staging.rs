//! Staging content before the operation that names it.

use bytes::Bytes;

use super::Store;
use crate::content::{self, Block, StageWriter, Staged};
use crate::error::Result;

impl Store {
    /// Stages content held in memory: on disk when it returns, except up to 4 KiB, which are stored in the record.
    pub async fn stage(&self, data: Bytes) -> Result<Staged> {
        content::stage(&self.core, data).await
    }

    /// A writer for content of any length.
    pub fn stage_writer(&self) -> StageWriter {
        StageWriter::new(&self.core)
    }

    /// An empty block of memory, to collect content for [`StageWriter::write`].
    pub fn block(&self) -> Block {
        self.core.blobs.block()
    }

    /// Staged content as a blob: inline content is packed, for records that can refer to blobs only.
    pub(crate) async fn in_blob(&self, staged: Staged) -> Result<Staged> {
        content::in_blob(&self.core, staged).await
    }
}
