//! Parsing of a form: its fields, then its file.
//!
//! - Everything before the file is bounded in number, size and time; the file is streamed and never held.
//! - A repeated field is refused: the one that the policy was checked with might differ from the one that is used.
//! - Fields after the file are not read (S3 API, PostObject: the file is the last field).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use s3s::{S3Error, S3ErrorCode, S3Result};
use s3s_multipart::{Boundary, Error, Multipart, Part, PartDataStream, parse_content_disposition};

use crate::error::{Detail as _, bad_argument, refuse};

/// The most fields before the file.
const FIELDS_MAX: usize = 200;
/// The most bytes of all field names and values (S3 API, PostObject).
const FIELD_BYTES_MAX: usize = 20 * 1024;
/// The most bytes of the headers of one part.
const PART_HEAD_BYTES_MAX: usize = 8 * 1024;
/// The time limit for everything before the file.
const FIELDS_TIMEOUT: Duration = Duration::from_secs(60);
/// The placeholder for the file's name in a field.
const FILENAME: &str = "${filename}";
/// The prefix of fields that are ignored.
const IGNORED: &str = "x-ignore-";

/// A request body from which a form is read.
pub(super) trait Source: Stream<Item = Result<Bytes, Error>> + Send + Unpin {}

impl<S: Stream<Item = Result<Bytes, Error>> + Send + Unpin> Source for S {}

/// A form that was read up to its file.
pub(super) struct Form<S: Source> {
    /// The fields before the file.
    pub(super) fields: Fields,
    /// The content of the file.
    pub(super) file: PartDataStream<S>,
}

/// The fields of a form; case is ignored in their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(BTreeMap<String, String>);

impl<S: Source> Form<S> {
    /// Reads a form with this Content-Type up to its file.
    pub(super) async fn read(content_type: &str, body: S) -> S3Result<Self> {
        let boundary = boundary(content_type).and_then(|boundary| Boundary::new(boundary.as_bytes()).ok());
        let boundary = boundary.ok_or_else(|| malformed("its boundary is missing or cannot be one"))?;
        let reading = read(Multipart::new(body, &boundary, PART_HEAD_BYTES_MAX));
        tokio::time::timeout(FIELDS_TIMEOUT, reading)
            .await
            .map_err(|_| refuse(S3ErrorCode::RequestTimeout, "The fields of the form did not come in time."))?
    }
}

async fn read<S: Source>(mut form: Multipart<S>) -> S3Result<Form<S>> {
    let mut fields = Fields::default();
    for _ in 0..=FIELDS_MAX {
        let Some(mut part) = form.next_part().await.map_err(|error| broken(&error))? else {
            let words = "POST requires exactly one file upload per request.";
            return Err(bad_argument(words, "file", 0).hint("The form has no field named 'file'."));
        };
        let head = Head::read(&mut part).await?;
        if head.name == "file" {
            let file = part.take_data_stream().map_err(|error| broken(&error))?;
            fields.name_file(head.file_name.as_deref().unwrap_or_default())?;
            return Ok(Form { fields, file });
        }
        let value = read_value(&mut part, FIELD_BYTES_MAX.saturating_sub(fields.bytes())).await?;
        fields.add(head.name, value)?;
    }
    Err(too_large())
}

async fn read_value<S: Source>(part: &mut Part<'_, S>, room: usize) -> S3Result<String> {
    let mut value = Vec::new();
    while let Some(piece) = part.next_data().await.map_err(|error| broken(&error))? {
        if value.len() + piece.len() > room {
            return Err(too_large());
        }
        value.extend_from_slice(&piece);
    }
    String::from_utf8(value).map_err(|_| malformed("a field is not UTF-8"))
}

/// The headers of a part.
struct Head {
    /// In lower case.
    name: String,
    file_name: Option<String>,
}

impl Head {
    async fn read<S: Source>(part: &mut Part<'_, S>) -> S3Result<Self> {
        let mut found = None;
        while let Some(header) = part.next_header().await.map_err(|error| broken(&error))? {
            if !header.name.eq_ignore_ascii_case("content-disposition") {
                continue;
            }
            let disposition = parse_content_disposition(header.value);
            let text = |bytes: &[u8]| {
                std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| malformed("the name of a field is not UTF-8"))
            };
            found = disposition.map(|given| (given.name.map(text), given.file_name.map(text)));
        }
        let Some((Some(name), file_name)) = found else { return Err(malformed("a part of it has no name")) };
        Ok(Self { name: name?.to_ascii_lowercase(), file_name: file_name.transpose()? })
    }
}

impl Fields {
    /// The value of a field; `name` is in lower case.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a required field.
    pub(super) fn require(&self, name: &str) -> S3Result<&str> {
        let missing = || {
            let words = format!(
                "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the \
                 fields."
            );
            bad_argument(words, name, "").hint("Fields after the file are ignored.")
        };
        self.get(name).ok_or_else(missing)
    }

    /// All fields, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    fn add(&mut self, name: String, value: String) -> S3Result<()> {
        if name.starts_with(IGNORED) {
            return Ok(());
        }
        if self.0.contains_key(&name) {
            return Err(refuse(S3ErrorCode::InvalidArgument, format!("The form has the field '{name}' twice.")));
        }
        self.0.insert(name, value);
        if self.bytes() > FIELD_BYTES_MAX { Err(too_large()) } else { Ok(()) }
    }

    /// Replaces the placeholder by the file's name, without folders.
    fn name_file(&mut self, path: &str) -> S3Result<()> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        for value in self.0.values_mut().filter(|value| value.contains(FILENAME)) {
            *value = value.replace(FILENAME, name);
        }
        if self.bytes() > FIELD_BYTES_MAX { Err(too_large()) } else { Ok(()) }
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Fields {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }
}

/// The boundary in a Content-Type.
fn boundary(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.trim().split_once('='));
    let (_, value) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    Some(value.trim_matches('"'))
}

fn broken(error: &Error) -> S3Error {
    match error {
        Error::StreamReadFailed(_) => refuse(S3ErrorCode::IncompleteBody, "The form ended before its final boundary."),
        Error::IncompleteStream => malformed("it ends before its last boundary"),
        Error::HeaderSizeExceeded { .. } => too_large(),
        _ => malformed("its parts cannot be told apart"),
    }
}

fn malformed(why: &str) -> S3Error {
    let words = format!("The form cannot be read: {why}.");
    refuse(S3ErrorCode::MalformedPOSTRequest, words)
}

fn too_large() -> S3Error {
    let words = format!("At most {FIELDS_MAX} fields and {FIELD_BYTES_MAX} bytes before the file are read.");
    refuse(S3ErrorCode::MaxPostPreDataLengthExceededError, words)
}

#[cfg(test)]
mod tests;
