//! Random choices that a seed replays.

use objstore_base::clock::{Random, SystemRandom};

/// The seed in `AMPHORA_SEED`, which may be `any`; without one that of `cargo verify`: the same each time, so that it
/// judges what was changed.
pub fn usual_seed() -> u64 {
    match std::env::var("AMPHORA_SEED").as_deref() {
        Ok("any") => any_seed(),
        Ok(given) => given.parse().expect("AMPHORA_SEED is a number, or `any`"),
        Err(_) => 120_000_000,
    }
}

/// A seed nobody has tried, with room for as many as a search takes after it.
pub fn any_seed() -> u64 {
    let mut bytes = [0; 4];
    SystemRandom.fill(&mut bytes);
    u64::from(u32::from_ne_bytes(bytes)) << 16
}

/// A source of choices.
pub struct Choices(u64);

impl Choices {
    /// Begins with the usual seed, or the one that is asked for; a failing test shows it.
    #[expect(clippy::new_without_default, reason = "it prints the seed")]
    #[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
    pub fn new() -> Self {
        let seed = usual_seed();
        eprintln!("replay with AMPHORA_SEED={seed}");
        Self(seed)
    }

    /// Begins with a given seed.
    pub fn with(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// A number below `end`, of 64 bits.
    pub fn below_u64(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One of them.
    pub fn of<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_ne_bytes());
        words.take(len).collect()
    }
}
