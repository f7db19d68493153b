//! Bodies in signed chunks, with and without trailers: accepted as signed, refused after any change of a chunk.

use super::changes::Change;
use super::request::{Payload, Request};
use super::world::BUCKET;
use super::{MISMATCH, Refusals, Signer, Wire, World, assert_no_faults};

const SUM: &str = "x-amz-checksum-crc32";

const CUT: Refusals = &[(400, "IncompleteBody"), (400, "MalformedTrailerError"), (403, "SignatureDoesNotMatch")];
const LENGTH: Refusals =
    &[(400, "IncompleteBody"), (400, "InvalidRequest"), (400, "EntityTooLarge"), (403, "SignatureDoesNotMatch")];
const NO_LENGTH: Refusals = &[(411, "MissingContentLength"), (400, "InvalidRequest")];
const TRAILER: Refusals = &[(400, "MalformedTrailerError"), (400, "InvalidRequest"), (400, "IncompleteBody")];
const DIGEST: Refusals = &[(400, "BadDigest")];
const SIGNED_DIGEST: Refusals = &[(400, "BadDigest"), (403, "SignatureDoesNotMatch")];

/// One chunk as it is sent.
#[derive(Clone)]
struct Frame {
    /// `SIZE;chunk-signature=SIGNATURE`, or the size alone.
    head: String,
    content: Vec<u8>,
}

/// A framed body, still in pieces.
#[derive(Clone)]
struct Stream {
    wire: Wire,
    frames: Vec<Frame>,
    /// The lines after the last frame.
    trailer: Vec<String>,
}

impl Stream {
    /// Signs `content` in chunks of `size` bytes.
    fn new(signer: &Signer, payload: Payload, content: &[u8], size: usize) -> Self {
        Self::with(signer, payload, content, size, &sum(content), Some(content.len()))
    }

    /// Signs `content` with a checksum and a decoded length that may differ from those of the content.
    fn with(signer: &Signer, payload: Payload, content: &[u8], size: usize, sum: &str, length: Option<usize>) -> Self {
        let mut request = Request::new("PUT", format!("/{BUCKET}/stream")).payload(payload);
        request = request.header("content-encoding", "aws-chunked");
        if let Some(length) = length {
            request = request.header("x-amz-decoded-content-length", length.to_string());
        }
        let trailed = payload != Payload::Chunks;
        if trailed {
            request = request.header("x-amz-trailer", SUM);
        }
        let (wire, mut before) = signer.sign_with_seed(&request);
        let mut frames = Vec::new();
        for chunk in content.chunks(size).chain([&[][..]]) {
            let mut head = format!("{:x}", chunk.len());
            if payload != Payload::UnsignedTrailer {
                before = signer.chunk(chunk, &before);
                head += &format!(";chunk-signature={before}");
            }
            frames.push(Frame { head, content: chunk.to_vec() });
        }
        let mut trailer = Vec::new();
        if trailed {
            trailer.push(format!("{SUM}:{sum}"));
        }
        if payload == Payload::ChunksAndTrailer {
            trailer.push(format!("x-amz-trailer-signature:{}", signer.trailer(SUM, sum, &before)));
        }
        Self { wire, frames, trailer }
    }

    fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for frame in &self.frames {
            body.extend(format!("{}\r\n", frame.head).into_bytes());
            body.extend(&frame.content);
            if !frame.content.is_empty() {
                body.extend(b"\r\n");
            }
        }
        for line in &self.trailer {
            body.extend(format!("{line}\r\n").into_bytes());
        }
        body.extend(b"\r\n");
        body
    }

    fn wire(&self) -> Wire {
        Wire { body: self.body(), ..self.wire.clone() }
    }

    /// The request after a change of its stream.
    fn but(&self, change: impl FnOnce(&mut Self)) -> Wire {
        let mut other = self.clone();
        change(&mut other);
        other.wire()
    }

    /// The first `length` bytes of the body. If `announced`, `content-length` is that length, else the original one.
    fn cut(&self, length: usize, announced: bool) -> Wire {
        let mut wire = self.wire();
        wire.length = (!announced).then_some(wire.body.len());
        wire.body.truncate(length);
        wire
    }
}

/// CRC-32 as the header has it.
fn sum(content: &[u8]) -> String {
    use base64::Engine as _;
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, content);
    let sum = u32::try_from(sum).expect("32 bits").to_be_bytes();
    base64::engine::general_purpose::STANDARD.encode(sum)
}

fn flip(text: &mut String) {
    let other = if text.ends_with('0') { '1' } else { '0' };
    text.pop();
    text.push(other);
}

const STREAMS: [(&str, Payload); 3] = [
    ("signed chunks", Payload::Chunks),
    ("signed chunks and trailer", Payload::ChunksAndTrailer),
    ("unsigned chunks and trailer", Payload::UnsignedTrailer),
];

/// The content of each stream: AWS's example, less than a chunk, nothing, and many chunks.
fn bodies() -> [(Vec<u8>, usize); 4] {
    let many = (0..200_000_u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]);
    [(vec![b'a'; 66_560], 65_536), (b"short".to_vec(), 65_536), (Vec::new(), 65_536), (many.collect(), 8192)]
}

#[tokio::test]
async fn chunks_are_put_together() {
    let world = World::new().await;
    for (what, payload) in STREAMS {
        for (content, size) in bodies() {
            let answer = world.send(&Stream::new(&world.signer(), payload, &content, size).wire());
            assert_eq!(answer.status, 200, "{what}, {} bytes: {answer}", content.len());
            let stored = world.content("stream").await.expect("there");
            assert!(stored == content, "{what}: {} bytes came back as {}", content.len(), stored.len());
        }
    }
}

#[tokio::test]
async fn a_changed_frame_is_refused_and_leaves_no_object() {
    let world = World::new().await;
    let mut before = world.state().await;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (what, payload) in STREAMS {
        for (content, size) in bodies().into_iter().filter(|(content, _)| !content.is_empty()) {
            let signer = world.signer();
            let stream = Stream::new(&signer, payload, &content, size);
            let mut changes = framing(&stream);
            changes.extend(lengths(&signer, payload, &content, size));
            if payload != Payload::UnsignedTrailer {
                changes.extend(signatures(&stream));
            }
            if payload != Payload::Chunks {
                changes.extend(trailers(&signer, payload, &content, size));
            }
            for change in changes {
                count += 1;
                let what = format!("{what}, {} bytes: {}", content.len(), change.what);
                wrong.extend(world.refused(&mut before, &what, &change.wire, change.expected).await);
            }
        }
    }
    assert_no_faults(count, &wrong);
}

fn changes<const N: usize>(list: [(&str, Wire, Refusals); N]) -> Vec<Change> {
    list.map(|(what, wire, expected)| Change { what: what.to_owned(), wire, expected }).into()
}

/// Missing, truncated and malformed frames.
fn framing(stream: &Stream) -> Vec<Change> {
    let whole = stream.body().len();
    let mut changes = changes([
        ("cut in the first frame", stream.cut(20, true), CUT),
        ("cut in the middle", stream.cut(whole / 2, true), CUT),
        ("cut before the end", stream.cut(whole - 3, true), CUT),
        ("hung up in the middle", stream.cut(whole / 2, false), CUT),
        ("hung up before the end", stream.cut(whole - 2, false), CUT),
        ("without its last frame", stream.but(|stream| drop(stream.frames.pop())), CUT),
        ("without its first frame", stream.but(|stream| drop(stream.frames.remove(0))), CUT),
        ("a frame twice", stream.but(|stream| stream.frames.insert(0, stream.frames[0].clone())), LENGTH),
        ("a size that is not a number", stream.but(|stream| stream.frames[0].head.insert(0, 'z')), LENGTH),
        ("a size of 2^64", stream.but(|stream| stream.frames[0].head.insert_str(0, "ffffffffffffffff")), LENGTH),
        ("an extension without end", stream.but(|stream| stream.frames[0].head += &"x".repeat(100_000)), LENGTH),
    ]);
    // An empty body, without the last frame.
    changes.push(Change { what: "no frame".to_owned(), wire: stream.cut(0, true), expected: CUT });
    changes
}

/// A wrong decoded length, with a valid signature.
fn lengths(signer: &Signer, payload: Payload, content: &[u8], size: usize) -> Vec<Change> {
    let with = |length| Stream::with(signer, payload, content, size, &sum(content), length).wire();
    changes([
        ("a decoded length too long", with(Some(content.len() + 1)), LENGTH),
        ("a decoded length too short", with(Some(content.len() - 1)), LENGTH),
        ("a decoded length of nothing", with(Some(0)), LENGTH),
        ("no decoded length", with(None), NO_LENGTH),
    ])
}

/// Changes of the frames: each signature covers the frame's content and the frame before it.
fn signatures(stream: &Stream) -> Vec<Change> {
    let last = stream.frames.len() - 1;
    let mut list = changes([
        ("another signature of the first frame", stream.but(|stream| flip(&mut stream.frames[0].head)), MISMATCH),
        ("another signature of the last frame", stream.but(|stream| flip(&mut stream.frames[last].head)), MISMATCH),
        ("another byte", stream.but(|stream| stream.frames[last - 1].content[0] ^= 1), MISMATCH),
        ("a signature left out", stream.but(|stream| stream.frames[0].head = unsigned(&stream.frames[0].head)), LENGTH),
    ]);
    if last > 1 {
        let swapped = stream.but(|stream| stream.frames.swap(0, 1));
        list.push(Change { what: "frames swapped".to_owned(), wire: swapped, expected: MISMATCH });
    }
    list
}

fn unsigned(head: &str) -> String {
    head.split(';').next().expect("a size").to_owned()
}

/// Changes of the trailer and its checksum.
fn trailers(signer: &Signer, payload: Payload, content: &[u8], size: usize) -> Vec<Change> {
    let stream = Stream::new(signer, payload, content, size);
    let wrong_sum = Stream::with(signer, payload, content, size, "AAAAAA==", Some(content.len())).wire();
    let another = |stream: &mut Stream| stream.trailer[0] = format!("{SUM}:AAAAAA==");
    let renamed = |stream: &mut Stream| stream.trailer[0] = format!("x-amz-checksum-sha256:{}", "A".repeat(43) + "=");
    let mut list = changes([
        ("a wrong checksum", wrong_sum, DIGEST),
        ("another checksum", stream.but(another), SIGNED_DIGEST),
        ("another trailer than announced", stream.but(renamed), TRAILER_OR_SIGNATURE),
        ("no trailer", stream.but(|stream| stream.trailer.clear()), TRAILER_OR_SIGNATURE),
    ]);
    if payload == Payload::ChunksAndTrailer {
        list.extend(changes([
            ("another signature of the trailer", stream.but(|stream| flip(&mut stream.trailer[1])), MISMATCH),
            ("no signature of the trailer", stream.but(|stream| drop(stream.trailer.pop())), TRAILER_OR_SIGNATURE),
        ]));
    } else {
        let more = stream.but(|stream| stream.trailer.push("x-amz-meta-evil:1".to_owned()));
        list.push(Change { what: "a trailer that was not announced".to_owned(), wire: more, expected: TRAILER });
    }
    list
}

const TRAILER_OR_SIGNATURE: Refusals = &[
    (400, "MalformedTrailerError"),
    (400, "InvalidRequest"),
    (400, "IncompleteBody"),
    (400, "BadDigest"),
    (403, "SignatureDoesNotMatch"),
];
