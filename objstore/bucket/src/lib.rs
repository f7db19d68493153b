//! One bucket of an S3 store, as the place of content and checkpoints.
