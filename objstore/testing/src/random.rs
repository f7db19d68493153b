//! Random choices that can be repeated from a seed.

use objstore_base::clock::{Random, SystemRandom};

/// A number in the environment, such as how many schedules to run; `None` if there is none, or something else.
pub fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seed in `AMPHORA_SEED`, which may be `any`. Without it, the seed of `cargo verify`: it is always the same, so
/// that a failure comes from a change and not from other choices.
pub fn usual_seed() -> u64 {
    match std::env::var("AMPHORA_SEED").as_deref() {
        Ok("any") => any_seed(),
        Ok(given) => given.parse().expect("AMPHORA_SEED is a number, or `any`"),
        Err(_) => 120_000_000,
    }
}

/// A new random seed, low enough that a search can count up from it.
pub fn any_seed() -> u64 {
    let mut bytes = [0; 4];
    SystemRandom.fill(&mut bytes);
    u64::from(u32::from_ne_bytes(bytes)) << 16
}

/// A source of random choices (rng).
pub struct Choices(u64);

impl Choices {
    /// Starts with the usual seed, or the one in `AMPHORA_SEED`; a failing test shows it.
    #[expect(clippy::new_without_default, reason = "it prints the seed")]
    #[expect(clippy::print_stderr, reason = "the harness shows it with the failure")]
    pub fn new() -> Self {
        let seed = usual_seed();
        eprintln!("replay with AMPHORA_SEED={seed}");
        Self(seed)
    }

    /// Starts with the given seed.
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

    /// A 64-bit number below `end`.
    pub fn below_u64(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True in one of `of` cases.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// One element of `from`.
    pub fn of<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_ne_bytes());
        words.take(len).collect()
    }
}
