//! Well-formed and malformed forms, received in pieces of any size.

use futures::TryStreamExt as _;
use proptest::prelude::*;

use super::*;

const TYPE: &str = "multipart/form-data; boundary=\"--b\"";

/// Fields and content of a form received in these pieces, or the code of its refusal.
fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Fields, Vec<u8>), String> {
    parse_as(TYPE, pieces)
}

fn parse_as<'a>(content_type: &str, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Fields, Vec<u8>), String> {
    let pieces: Vec<_> = pieces.into_iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let form = Form::read(content_type, futures::stream::iter(pieces)).await;
        let form = form.map_err(|error| error.code().as_str().to_owned())?;
        let content: Vec<Bytes> = form.file.try_collect().await.map_err(|error| format!("{error:?}"))?;
        Ok((form.fields, content.concat()))
    })
}

fn part(name: &str, value: &str) -> String {
    format!("----b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn file(name: &str, content: &str) -> String {
    format!(
        "----b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: a/b\r\n\r\n\
         {content}\r\n----b--\r\n"
    )
}

#[test]
fn a_form_is_the_same_in_pieces_of_any_size() {
    let content = "\r\n----\r\n----a\r\n--\r\n----";
    let form = format!("{}{}{}", part("Key", "a/${filename}"), part("ACL", ""), file("b.txt", content));
    let expected = Ok((Fields::from([("key", "a/b.txt"), ("acl", "")]), content.as_bytes().to_vec()));
    for size in 1..=form.len() {
        assert_eq!(parse(form.as_bytes().chunks(size)), expected, "pieces of {size}");
    }
    for at in 0..form.len() {
        let (before, after) = form.as_bytes().split_at(at);
        assert_eq!(parse([before, after]), expected, "split at {at}");
    }
}

#[test]
fn what_surrounds_the_parts_does_not_count() {
    let plain = format!("{}{}", part("key", "k"), file("f", "content"));
    let expected = parse([plain.as_bytes()]).unwrap();
    for form in [
        format!("a preamble\r\n{plain}"),
        format!("{plain}an epilogue"),
        format!("{}{}", plain.replace("----b--\r\n", "----b\r\n"), part("key", "late")),
        plain.replace("----b\r\n", "----b \t\r\n"),
        plain.replace("form-data; name=\"key\"", "form-data; name=\"key\"; filename=\"key\""),
        plain.replace("Content-Disposition", "content-disposition"),
        plain.replace("name=\"key\"", "name=key"),
    ] {
        assert_eq!(parse([form.as_bytes()]).unwrap(), expected, "{form}");
    }
    for content_type in ["multipart/form-data;boundary=--b", "Multipart/Form-Data; charset=UTF-8; Boundary=--b"] {
        assert_eq!(parse_as(content_type, [plain.as_bytes()]).unwrap(), expected, "{content_type}");
    }
}

#[test]
fn broken_forms_are_refused() {
    let whole = format!("{}{}", part("key", "k"), file("f", "content"));
    let nameless = whole.replace("; name=\"key\"", "");
    let bare = whole.replace("Content-Disposition: form-data; name=\"key\"\r\n", "");
    let glued = whole.replacen("----b\r\n", "----bX\r\n", 1);
    let twice = format!("{}{whole}", part("KEY", "other"));
    let fileless = format!("{}----b--\r\n", part("key", "k"));
    let table = [
        ("", "MalformedPOSTRequest"),
        ("no boundary at all", "MalformedPOSTRequest"),
        (&whole[..40], "MalformedPOSTRequest"),
        (&nameless, "MalformedPOSTRequest"),
        (&bare, "MalformedPOSTRequest"),
        (&glued, "MalformedPOSTRequest"),
        (&twice, "InvalidArgument"),
        (&fileless, "InvalidArgument"),
    ];
    for (form, code) in table {
        assert_eq!(parse([form.as_bytes()]).unwrap_err(), code, "{form}");
    }
    for bad in ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a\rb\""] {
        assert_eq!(parse_as(bad, [whole.as_bytes()]).unwrap_err(), "MalformedPOSTRequest", "{bad}");
    }
    let latin = whole.replace("\r\nk\r\n", "\r\n?\r\n").into_bytes();
    let latin: Vec<u8> = latin.into_iter().map(|byte| if byte == b'?' { 0xe9 } else { byte }).collect();
    assert_eq!(parse([latin.as_slice()]).unwrap_err(), "MalformedPOSTRequest");
}

#[test]
fn a_file_without_its_boundary_is_no_file() {
    let whole = file("f", "content");
    for cut in [whole.len() - 10, whole.len() - 9, whole.len() - 5] {
        assert!(parse([&whole.as_bytes()[..cut]]).unwrap_err().contains("IncompleteStreamPart"), "{cut}");
    }
}

#[test]
fn what_comes_before_the_file_is_bounded() {
    let code = |form: String| parse(form.as_bytes().chunks(1000)).unwrap_err();
    let large = "x".repeat(FIELD_BYTES_MAX);
    assert_eq!(code(format!("{}{}", part("key", &large), file("f", ""))), "MaxPostPreDataLengthExceededError");
    let many: String = (0..=FIELDS_MAX).map(|n| part(&format!("x{n}"), "")).collect();
    assert_eq!(code(format!("{many}{}", file("f", ""))), "MaxPostPreDataLengthExceededError");
    let long_head = format!("----b\r\nX-Long: {large}\r\n\r\n");
    assert_eq!(code(long_head), "MaxPostPreDataLengthExceededError");
    let grown: String = (0..100).map(|n| part(&format!("x{n}"), "${filename}")).collect();
    assert_eq!(code(format!("{grown}{}", file(&"f".repeat(1000), ""))), "MaxPostPreDataLengthExceededError");
    let ignored = format!("{}{}", part("x-ignore-a", "1"), part("x-ignore-a", "2"));
    assert_eq!(parse([format!("{ignored}{}", file("f", "")).as_bytes()]), Ok((Fields::default(), Vec::new())));
}

#[test]
fn only_the_last_component_of_a_file_name_counts() {
    for name in ["photo.jpg", "C:\\Users\\me\\photo.jpg", "/photos/mine/photo.jpg"] {
        let form = format!("{}{}", part("key", "u/${filename}/${filename}"), file(name, ""));
        let (fields, _) = parse([form.as_bytes()]).unwrap();
        assert_eq!(fields.get("key"), Some("u/photo.jpg/photo.jpg"), "{name}");
    }
}

proptest! {
    #[test]
    fn how_a_body_is_cut_never_changes_the_result(
        fields in proptest::collection::vec(("[a-z]{1,8}", "[ -~]{0,20}"), 0..5),
        content in "(\r|\n|-|b|[ -~]){0,200}",
        cuts in proptest::collection::vec(1usize..40, 1..60),
    ) {
        let parts: String = fields.iter().map(|(name, value)| part(name, value)).collect();
        let form = format!("{parts}{}", file("f", &content));
        let mut rest = form.as_bytes();
        let mut pieces = Vec::new();
        for cut in cuts {
            let (piece, left) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = left;
        }
        pieces.push(rest);
        prop_assert_eq!(parse(pieces), parse([form.as_bytes()]));
    }
}
