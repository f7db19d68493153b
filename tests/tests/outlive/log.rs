//! A program that appends records to a log and syncs it, as a database does.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{fdatasync, fsync};

use crate::support::*;

/// The number of a record, the length of its body and a checksum, of 8 bytes each.
const HEAD: usize = 24;

/// Appends until `going` is false.
pub fn append(dir: &Path, rng: &mut Rng, going: &AtomicBool) {
    let path = dir.join("log");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("the log");
    let (mut number, mut size) = (0_u64, 0);
    while going.load(Ordering::Relaxed) {
        let longest = if rng.chance(5) { 200_000 } else { 2_000 };
        let len = 1 + rng.below(longest);
        let record = record(number, &rng.bytes(len));
        file.write_all(&record).unwrap_or_else(|error| panic!("record {number}: {error}"));
        size += record.len() as u64;
        match rng.below(3) {
            0 => fsync(&file).expect("synced"),
            1 => fdatasync(&file).expect("synced"),
            _ => {}
        }
        assert_eq!(file.metadata().expect("attributes").len(), size, "the size after record {number}");
        if rng.chance(2) {
            file = OpenOptions::new().append(true).open(&path).expect("the log is opened again");
        }
        number += 1;
    }
    std::fs::write(dir.join("count"), number.to_string()).expect("the count is kept");
}

/// Compares the whole log with what was appended.
pub fn compare(dir: &Path) {
    let count: u64 = std::fs::read_to_string(dir.join("count")).expect("the count").parse().expect("a number");
    let mut file = File::open(dir.join("log")).expect("the log");
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).expect("the log is read");
    let (mut rest, mut number) = (bytes.as_slice(), 0);
    while !rest.is_empty() {
        let field = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().expect("8 bytes"));
        let at = bytes.len() - rest.len();
        assert_eq!(field(0), number, "the record at {at}");
        let len = usize::try_from(field(8)).expect("small");
        let body = &rest[HEAD..HEAD + len];
        assert_eq!(sum(body), field(16), "the body of record {number} at {at}");
        rest = &rest[HEAD + len..];
        number += 1;
    }
    assert_eq!(number, count, "the number of records");
    assert!(count > 10, "only {count} records: too little load");
}

fn record(number: u64, body: &[u8]) -> Vec<u8> {
    let head = [number, body.len() as u64, sum(body)];
    head.iter().flat_map(|field| field.to_le_bytes()).chain(body.iter().copied()).collect()
}

/// An FNV-1a hash.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}
