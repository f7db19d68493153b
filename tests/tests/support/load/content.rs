//! Content that is computed from a length and a seed.

/// The content of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its length, in bytes.
    pub len: usize,
    /// The seed of the generator of its bytes.
    pub seed: u64,
}

impl Content {
    /// Its bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut state = self.seed | 1;
        let words = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 31)).to_le_bytes()
        });
        let mut bytes: Vec<u8> = words.take(self.len.div_ceil(8)).flatten().collect();
        bytes.truncate(self.len);
        bytes
    }
}
