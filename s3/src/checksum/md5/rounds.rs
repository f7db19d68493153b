//! The steps of MD5 (RFC 1321, section 3.4), written once for single numbers and for vectors of them.

/// Bytes of a block, the unit of MD5.
pub(super) const BLOCK: usize = 64;

/// The state carried from block to block.
pub(super) type State = [u32; 4];

/// The state before the first block.
pub(super) const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The constant of each step: the integer part of 2^32 times the sine of the step's number, counted from 1.
#[rustfmt::skip]
pub(super) const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501, 0x6980_98d8,
    0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821, 0xf61e_2562, 0xc040_b340,
    0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8, 0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87,
    0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a, 0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70, 0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039,
    0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665, 0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92,
    0xffef_f47d, 0x8584_5dd1, 0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb,
    0xeb86_d391,
];

/// The state after a block of sixteen `$words`, with the operations of the module `$on`.
macro_rules! compress {
    ($on:ident, $state:expr, $words:ident) => {{
        let before = $state;
        let [mut a, mut b, mut c, mut d] = before;
        // Sixteen steps with one mixing function; each takes the word `$stride` after that of the step before.
        macro_rules! round {
            ($mix:ident, $round:literal, $start:literal, $stride:literal, $t0:literal, $t1:literal, $t2:literal, $t3:literal) => {
                for at in [0, 4, 8, 12] {
                    let word = |step: usize| $words[($start + (at + step) * $stride) % 16];
                    let sine = |step: usize| $crate::checksum::md5::rounds::SINES[$round * 16 + at + step];
                    a = $on::step::<$t0, { 32 - $t0 }>([a, b], $on::$mix(b, c, d), word(0), sine(0));
                    d = $on::step::<$t1, { 32 - $t1 }>([d, a], $on::$mix(a, b, c), word(1), sine(1));
                    c = $on::step::<$t2, { 32 - $t2 }>([c, d], $on::$mix(d, a, b), word(2), sine(2));
                    b = $on::step::<$t3, { 32 - $t3 }>([b, c], $on::$mix(c, d, a), word(3), sine(3));
                }
            };
        }
        round!(mix_f, 0, 0, 1, 7, 12, 17, 22);
        round!(mix_g, 1, 1, 5, 5, 9, 14, 20);
        round!(mix_h, 2, 5, 3, 4, 11, 16, 23);
        round!(mix_i, 3, 0, 7, 6, 10, 15, 21);
        [$on::add(before[0], a), $on::add(before[1], b), $on::add(before[2], c), $on::add(before[3], d)]
    }};
}
pub(super) use compress;

/// The operations on single numbers.
mod alone {
    pub(super) fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }

    pub(super) fn mix_f(b: u32, c: u32, d: u32) -> u32 {
        d ^ (b & (c ^ d))
    }

    // The two sides have no bit in common, so a sum equals the "or", and one side of it can be added early.
    pub(super) fn mix_g(b: u32, c: u32, d: u32) -> u32 {
        (c & !d).wrapping_add(b & d)
    }

    pub(super) fn mix_h(b: u32, c: u32, d: u32) -> u32 {
        b ^ (c ^ d)
    }

    pub(super) fn mix_i(b: u32, c: u32, d: u32) -> u32 {
        c ^ (b | !d)
    }

    pub(super) fn step<const LEFT: u32, const RIGHT: u32>([a, b]: [u32; 2], mix: u32, word: u32, sine: u32) -> u32 {
        let sum = a.wrapping_add(word).wrapping_add(sine).wrapping_add(mix);
        b.wrapping_add(sum << LEFT | sum >> RIGHT)
    }
}

/// Hashes whole blocks of one content.
pub(super) fn run(state: &mut State, blocks: &[u8]) {
    for block in blocks.as_chunks::<BLOCK>().0 {
        let words: [u32; 16] = std::array::from_fn(|at| {
            u32::from_le_bytes([block[at * 4], block[at * 4 + 1], block[at * 4 + 2], block[at * 4 + 3]])
        });
        *state = compress!(alone, *state, words);
    }
}
