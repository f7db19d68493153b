//! The body of a fuzz target (`fuzz/`): heads of calls and replies, errors, changes and sessions, as arbitrary bytes.
//!
//! A value that was decoded has to encode to bytes that decode to an equal value.

use bytes::Bytes;
use prost::Message;

use crate::session::{Acknowledged, Answered, Control, Delivered, Leased, Opened, Renewed, Sent, read, write};
use crate::{
    decode_about, decode_call, decode_changes, decode_failure, decode_reply, encode_about, encode_call, encode_changes,
    encode_failure, encode_reply, within_one_reply,
};

/// The first byte selects what the rest is read as.
pub fn operation(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match (kind, kind % 5) {
        (250.., _) => messages(bytes),
        (_, 0) => call(bytes),
        (_, 1) => reply(bytes),
        (_, 2) => failure(bytes),
        (_, 3) => changes(bytes),
        _ => about(bytes),
    }
}

fn call(bytes: &[u8]) {
    if let Ok((context, op)) = decode_call(bytes) {
        let again = decode_call(&encode_call(&context, &op)).ok();
        assert_eq!(again, Some((context, op.clone())), "it is read as it was written");
        let _ = (op.class(), op.name(), within_one_reply(op));
    }
}

fn reply(bytes: &[u8]) {
    let data = Bytes::copy_from_slice(&bytes[..bytes.len().min(16)]);
    if let Ok(answer) = decode_reply(bytes, data) {
        let (head, data) = encode_reply(&answer);
        let again = decode_reply(&head, data).expect("it was read before");
        assert_eq!(format!("{again:?}"), format!("{answer:?}"), "it is read as it was written");
    }
}

fn failure(bytes: &[u8]) {
    if let Ok(error) = decode_failure(bytes) {
        let again = decode_failure(&encode_failure(&error)).expect("it was read before");
        assert_eq!(format!("{again:?}"), format!("{error:?}"), "it is read as it was written");
    }
}

fn changes(bytes: &[u8]) {
    if let Ok(changes) = decode_changes(bytes) {
        assert_eq!(decode_changes(&encode_changes(&changes)).ok(), Some(changes), "it is read as it was written");
    }
}

fn about(bytes: &[u8]) {
    if let Ok(about) = decode_about(bytes) {
        assert_eq!(decode_about(&encode_about(&about)).ok(), Some(about), "it is read as it was written");
    }
}

fn messages(bytes: &[u8]) {
    message::<Sent>(bytes);
    message::<Answered>(bytes);
    message::<Control>(bytes);
    message::<Opened>(bytes);
    message::<Renewed>(bytes);
    message::<Delivered>(bytes);
    message::<Acknowledged>(bytes);
    message::<Leased>(bytes);
}

fn message<M: Message + Default + PartialEq>(bytes: &[u8]) {
    if let Ok(message) = read::<M>(Bytes::copy_from_slice(bytes)) {
        assert!(read::<M>(write(&message)).is_ok_and(|again| again == message), "it is read as it was written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_session_are_read_as_they_were_written() {
        use crate::session::{Ask, Open};
        let (bucket, prefix) = ("b".to_owned(), "p/q".to_owned());
        let open = Open { incarnation: 3, resumes: true, bucket, read_only: true, prefix };
        let control = write(&Control { ask: Some(Ask::Open(open)) });
        for at in 0..control.len() {
            for byte in 0..=u8::MAX {
                let mut changed = control.to_vec();
                changed[at] = byte;
                messages(&changed);
            }
        }
        messages(&control);
    }

    #[test]
    fn the_corpus_breaks_no_promise() {
        corpora::run("operation", operation);
    }
}
