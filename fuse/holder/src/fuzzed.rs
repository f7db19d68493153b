//! Packets between a server and its fd holder as a function that takes any bytes: a part of the fuzz target `holder`
//! (`fuzz/`).

use super::message::{Answer, Request};

/// Packets of either side. What decodes must encode to bytes that decode to the same value.
pub fn packets(bytes: &[u8]) {
    if let Ok((version, request)) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode(version)), Ok((version, request)));
    }
    if let Some(answer) = Answer::decode(bytes) {
        let version = bytes.first().copied().unwrap_or_default();
        assert_eq!(Answer::decode(&answer.encode(version)), Some(answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_breaks_no_promise() {
        corpora::run("holder", packets);
    }
}
