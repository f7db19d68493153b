//! Requests of other gRPC libraries, byte by byte.

use tokio::io::AsyncReadExt as _;

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, held: &[u8]) -> Vec<u8> {
    let length = u32::try_from(held.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], held].concat()
}

/// A connection with a SETTINGS frame, these frames, and DATA that looks like the head of HEADERS.
fn connection(frames: &[Vec<u8>]) -> Vec<u8> {
    let data = frame(0, 1, &frame(HEADERS, 4, b"\x41\x04%2F%"));
    [PREFACE, &frame(4, 0, &[0; 6]), &frames.concat(), &data].concat()
}

/// A literal with a name and a value that are not Huffman-coded.
fn literal(first: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| u8::try_from(text.len()).unwrap();
    [&[first, length(name)], name, &[length(value)], value].concat()
}

fn passed(bytes: &[u8], at_a_time: usize) -> Vec<u8> {
    let (mut filter, mut out) = (Filter::default(), Vec::new());
    bytes.chunks(at_a_time).for_each(|chunk| filter.pass(chunk, &mut out));
    out.append(&mut filter.held);
    out
}

/// Checks one header block, whole and in pieces of each size.
#[track_caller]
fn check(block: &[u8], expected: &[u8]) {
    for (flags, before, behind) in [
        (4, &[][..], &[][..]),
        (4 | PADDED, &[3], &[0, 0, 0]),
        (4 | PRIORITY, &[0; 5], &[]),
        (4 | PADDED | PRIORITY, &[1, 0, 0, 0, 0, 0], &[0]),
    ] {
        let of = |block: &[u8]| connection(&[frame(HEADERS, flags, &[before, block, behind].concat())]);
        for at_a_time in [1, 2, 3, 7, 9, 24, 1000] {
            assert_eq!(passed(&of(block), at_a_time), of(expected), "flags {flags}, {at_a_time} bytes at a time");
        }
    }
}

#[test]
fn the_path_of_a_socket_becomes_a_host_name_of_the_same_length() {
    let path = |value: &[u8]| [&[0x83, 0x86], &literal(0x40, AUTHORITY, value)[..], &[0x84]].concat();
    check(&path(b"%2Frun%2Fcsi.sock"), &path(b"-2Frun-2Fcsi.sock"));
    check(&path(b"/run/a:b@c.sock"), &path(b"-run-a-b-c.sock"));
    // As grpc-java writes it: the name by its index.
    for first in [0x41, 0x01, 0x11] {
        let path = |value: &[u8]| [&[first, u8::try_from(value.len()).unwrap()], value].concat();
        check(&path(b"/run/csi.sock"), &path(b"-run-csi.sock"));
    }
}

#[test]
fn a_path_in_huffman_code_becomes_a_host_name_of_the_same_length() {
    let coded = |value: &[u8]| [&[0x41, 0x80 | u8::try_from(value.len()).unwrap()], value].concat();
    let percent = [0x54, 0x58, 0x6c, 0xb6, 0xa5, 0x45, 0x84, 0x88, 0x32, 0xe8, 0x39, 0x3a, 0xff];
    let percent_mended = [0x58, 0x58, 0x6c, 0xb6, 0xa5, 0x85, 0x84, 0x88, 0x32, 0xe8, 0x39, 0x3a, 0xff];
    check(&coded(&percent), &coded(&percent_mended));
    let plain = [0x62, 0xcb, 0x6a, 0x60, 0x88, 0x32, 0xe8, 0x39, 0x3a, 0xff];
    let plain_mended = [0x5a, 0xcb, 0x6a, 0x58, 0x88, 0x32, 0xe8, 0x39, 0x3a, 0xff];
    check(&coded(&plain), &coded(&plain_mended));
    let named = |value: &[u8]| [&[0x40, 0x88], AUTHORITY_CODED, &[0x8a], value].concat();
    check(&named(&plain), &named(&plain_mended));
}

#[test]
fn everything_else_passes_as_it_is() {
    for block in [
        &literal(0x40, AUTHORITY, b"localhost:9000")[..],
        &literal(0x40, b":path", b"/csi.v1.Identity/Probe%2F"),
        &literal(0x40, b"x-authority", b"%2F"),
        b"\x41\x7f\xff\xff\xff\x7f%2F",
        b"\x41\x05%2F",
        b"\x41",
        b"",
        b"\x3f\xe1\x1f",
    ] {
        check(block, block);
    }
    let large = connection(&[frame(HEADERS, 4, &vec![b'%'; FRAME_BYTES_MAX + 1])]);
    assert_eq!(passed(&large, 100), large);
}

#[test]
fn bytes_that_are_no_requests_keep_their_number_and_break_nothing() {
    let mut state: u64 = 1;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for _ in 0..2_000 {
        let block: Vec<u8> = (0..byte()).map(|_| byte()).collect();
        let bytes = [PREFACE, &frame(HEADERS, byte(), &block), &block].concat();
        assert_eq!(passed(&bytes, 1 + usize::from(byte())).len(), bytes.len());
    }
}

#[tokio::test]
async fn a_connection_is_read_to_its_end() {
    let whole = connection(&[frame(HEADERS, 4, &literal(0x40, AUTHORITY, b"%2F"))]);
    for cut in [5, 24, 30, 45, whole.len()] {
        let mut read = Vec::new();
        Authorities::new(&whole[..cut]).read_to_end(&mut read).await.expect("read");
        assert_eq!(read.len(), cut);
    }
}
