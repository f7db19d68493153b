//! A random number generator that a seed reproduces.

use std::hash::{BuildHasher, RandomState};

use tests::amount::is_full;

/// The environment variable with the seed; `any` chooses one at random.
const SEED: &str = "AMPHORA_SEED";

/// The seed of `cargo verify`: always the same, so that failures are caused by changes of the code.
const USUAL: u64 = 120_000_000;

/// SplitMix64: small, and the same on every machine.
pub struct Rng {
    state: u64,
    seed: u64,
}

impl Rng {
    /// A generator with the seed from the environment, else the default one; at full size a random one. Prints the seed
    /// with the command that repeats `test`.
    ///
    /// # Panics
    /// If the environment has a seed that is neither a number nor `any`.
    #[expect(clippy::print_stdout, reason = "the test harness shows it when the test fails")]
    pub fn new(test: &str) -> Self {
        let seed: u64 = match std::env::var(SEED).as_deref() {
            Ok(given) if given != "any" => given.parse().expect("AMPHORA_SEED is a number, or `any`"),
            Err(_) if !is_full() => USUAL,
            _ => RandomState::new().hash_one(test) >> 16,
        };
        println!("seed {seed}; again: {SEED}={seed} cargo test --ignore-rust-version -p tests --test all {test}");
        Self { state: seed, seed }
    }

    /// A generator for another thread, derived from this one's seed and a number.
    pub fn fork(&self, number: u64) -> Self {
        let seed = self.seed.wrapping_add(number.wrapping_mul(0xA24B_AED4_963E_E407));
        Self { state: seed, seed }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is greater than zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.roll() % limit as u64).expect("below a usize")
    }

    /// `true` in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `all`.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.roll().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
