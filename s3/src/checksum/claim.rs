//! Claims of a request about its body: checksums, Content-MD5 and trailers.
//!
//! - A request claims at most one checksum besides Content-MD5.
//! - Trailers are readable only after the body; until [`Claims::verify`] succeeds, the body is not trusted.
//! - Only announced trailers may follow the body, each once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders};

use super::{Algorithm, Digest, Sums};
use crate::error::{Detail as _, custom, plain, refuse, says};

/// The claims of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    md5: Option<[u8; 16]>,
    checksum: Option<(Algorithm, Value)>,
    /// The announced trailers, in lower case.
    trailers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// The value from the header, in base64.
    Known(String),
    /// The value follows the body as a trailer.
    Trailer,
    /// No value is claimed: the client asks to compute the checksum and store it.
    Asked,
}

impl Claims {
    /// Parses the claims from a request's headers.
    pub(crate) fn from_headers(headers: &HeaderMap) -> S3Result<Self> {
        refuse_unknown(headers)?;
        let md5 = text(headers, "content-md5")?.map(parse_md5).transpose()?;
        let mut checksum = None;
        for algorithm in Algorithm::ALL {
            let Some(value) = text(headers, algorithm.header())? else { continue };
            let claim = (algorithm, Value::Known(parse_value(algorithm, value)?));
            if checksum.replace(claim).is_some() {
                return Err(several());
            }
        }
        let trailers = announced(headers)?;
        if let Some(algorithm) = checksum_of(&trailers)? {
            if checksum.is_some() {
                return Err(several());
            }
            checksum = Some((algorithm, Value::Trailer));
        }
        if let Some(name) = given(headers, "x-amz-sdk-checksum-algorithm")? {
            check_promised(name, checksum.as_ref().map(|(algorithm, _)| *algorithm))?;
        }
        if let (None, Some(name)) = (&checksum, given(headers, "x-amz-checksum-algorithm")?) {
            checksum = Some((Algorithm::from_name(name)?, Value::Asked));
        }
        Ok(Self { md5, checksum, trailers })
    }

    /// The claims for an object. If they name no checksum, the default one is computed and stored (S3 User Guide,
    /// "Checking object integrity").
    pub(crate) fn for_object(mut self) -> Self {
        self.checksum.get_or_insert((Algorithm::DEFAULT, Value::Asked));
        self
    }

    /// The claims for a part of an upload whose checksum algorithm is `algorithm`. If neither names one, the default
    /// applies as for an object.
    pub(crate) fn for_part(mut self, algorithm: Option<Algorithm>) -> S3Result<Self> {
        let Some(wanted) = algorithm else { return Ok(self.for_object()) };
        let (given, _) = self.checksum.get_or_insert((wanted, Value::Asked));
        if *given == wanted {
            return Ok(self);
        }
        let words = format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            wanted.name().to_ascii_lowercase(),
            given.name().to_ascii_lowercase()
        );
        Err(says(S3ErrorCode::InvalidRequest, words))
    }

    /// The claim of Content-MD5 alone, which always concerns the body, while the other claims may concern the object.
    pub(crate) fn md5_alone(&self) -> Self {
        Self { md5: self.md5, ..Self::default() }
    }

    /// A digest that can verify the claims.
    pub(crate) fn digest(&self) -> Digest {
        Digest::new(self.checksum.as_ref().map(|(algorithm, _)| *algorithm))
    }

    /// Whether there are no claims.
    pub(crate) fn is_empty(&self) -> bool {
        self.md5.is_none() && !matches!(self.checksum, Some((_, Value::Known(_) | Value::Trailer)))
    }

    /// Compares the claims with the digests of the body, which was read to its end.
    pub(crate) fn verify(&self, sums: &Sums, trailers: Option<&TrailingHeaders>) -> S3Result<()> {
        check_trailers(&self.trailers, trailers)?;
        if let Some(md5) = self.md5.filter(|md5| *md5 != sums.md5) {
            let error = plain(S3ErrorCode::BadDigest).with("ExpectedDigest", BASE64.encode(md5));
            return Err(error.with("CalculatedDigest", BASE64.encode(sums.md5)));
        }
        let Some((algorithm, value)) = &self.checksum else { return Ok(()) };
        let claimed = match value {
            Value::Known(claimed) => claimed.clone(),
            Value::Trailer => trailer(*algorithm, trailers)?,
            Value::Asked => return Ok(()),
        };
        if sums.checksum.as_ref().is_some_and(|found| found.value == claimed) {
            return Ok(());
        }
        Err(mismatch(*algorithm))
    }

    /// The value that a header claims, with its algorithm.
    pub(crate) fn known(&self) -> Option<(Algorithm, &str)> {
        match &self.checksum {
            Some((algorithm, Value::Known(value))) => Some((*algorithm, value)),
            _ => None,
        }
    }
}

/// The error for a claimed checksum that differs from the computed one.
pub(crate) fn mismatch(algorithm: Algorithm) -> S3Error {
    says(
        S3ErrorCode::BadDigest,
        format!("The {} you specified did not match the calculated checksum.", algorithm.name()),
    )
}

/// `x-amz-sdk-checksum-algorithm` announces a checksum in a header or trailer; if there is none, it was lost on the
/// way.
fn check_promised(name: &str, found: Option<Algorithm>) -> S3Result<()> {
    let words = match found {
        Some(found) if found == Algorithm::from_name(name)? => return Ok(()),
        Some(_) => "Value for x-amz-sdk-checksum-algorithm header is invalid.",
        None => {
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were \
             found."
        }
    };
    Err(says(S3ErrorCode::InvalidRequest, words))
}

/// Refuses unknown checksum headers, so that no checksum stays unverified unnoticed.
fn refuse_unknown(headers: &HeaderMap) -> S3Result<()> {
    for name in headers.keys() {
        let name = name.as_str();
        let Some(rest) = name.strip_prefix("x-amz-checksum-") else { continue };
        let known = matches!(rest, "algorithm" | "mode" | "type");
        if !known && !Algorithm::ALL.iter().any(|algorithm| algorithm.header() == name) {
            return Err(unknown(name));
        }
    }
    Ok(())
}

fn unknown(name: &str) -> S3Error {
    let words = "The algorithm type you specified in x-amz-checksum- header is invalid";
    says(S3ErrorCode::InvalidRequest, words).hint(format!("{name} is not a supported checksum."))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> S3Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refuse(S3ErrorCode::InvalidRequest, format!("The header {name} is given twice.")));
    }
    let value = value.to_str().map_err(|_| refuse(S3ErrorCode::InvalidRequest, format!("Bad header {name}.")))?;
    Ok(Some(value.trim()))
}

/// The value of a header; an empty one counts as absent.
fn given<'a>(headers: &'a HeaderMap, name: &str) -> S3Result<Option<&'a str>> {
    Ok(text(headers, name)?.filter(|value| !value.is_empty()))
}

fn parse_md5(value: &str) -> S3Result<[u8; 16]> {
    let bytes = BASE64.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| {
        refuse(S3ErrorCode::InvalidDigest, "Content-MD5 has to be 16 bytes in base64.").with("Content-MD5", value)
    })
}

fn parse_value(algorithm: Algorithm, value: &str) -> S3Result<String> {
    // For an object made of parts, `-N` may follow the value.
    let digest = value.split_once('-').map_or(value, |(digest, _)| digest);
    if BASE64.decode(digest).is_ok_and(|bytes| bytes.len() == algorithm.len()) {
        return Ok(value.to_owned());
    }
    let (header, bytes) = (algorithm.header(), algorithm.len());
    let words = format!("Value for {header} header is invalid.");
    Err(says(S3ErrorCode::InvalidRequest, words).hint(format!("It has to be {bytes} bytes in base64.")))
}

/// The trailers that `x-amz-trailer` announces, without their signature.
fn announced(headers: &HeaderMap) -> S3Result<Vec<String>> {
    let names = text(headers, "x-amz-trailer")?.unwrap_or_default().split(',');
    let names = names.map(|name| name.trim().to_ascii_lowercase());
    Ok(names.filter(|name| !name.is_empty() && name != "x-amz-trailer-signature").collect())
}

/// The checksum among the trailers.
fn checksum_of(trailers: &[String]) -> S3Result<Option<Algorithm>> {
    let mut found = None;
    for name in trailers.iter().filter(|name| name.starts_with("x-amz-checksum-")) {
        let Some(algorithm) = Algorithm::ALL.into_iter().find(|algorithm| algorithm.header() == name) else {
            return Err(unknown(name));
        };
        if found.replace(algorithm).is_some() {
            return Err(several());
        }
    }
    Ok(found)
}

fn check_trailers(announced: &[String], came: Option<&TrailingHeaders>) -> S3Result<()> {
    let came: Vec<String> = came
        .and_then(|came| came.read(|map| map.iter().map(|(name, _)| name.as_str().to_owned()).collect()))
        .unwrap_or_default();
    let words = if let Some(missing) = announced.iter().find(|name| !came.contains(name)) {
        format!("The trailer {missing} was announced and did not follow the body.")
    } else if let Some(foreign) = came.iter().find(|name| !announced.contains(name)) {
        format!("The trailer {foreign} follows the body, and x-amz-trailer does not announce it.")
    } else if came.len() > announced.len() {
        "A trailer follows the body twice.".to_owned()
    } else {
        return Ok(());
    };
    Err(malformed(words))
}

fn trailer(algorithm: Algorithm, trailers: Option<&TrailingHeaders>) -> S3Result<String> {
    let value = trailers.and_then(|trailers| {
        trailers.read(|map| map.get(algorithm.header()).and_then(|value| value.to_str().ok()).map(str::to_owned))
    });
    value.flatten().ok_or_else(|| malformed(format!("The trailer {} is not valid text.", algorithm.header())))
}

fn malformed(words: String) -> S3Error {
    refuse(custom("MalformedTrailerError"), words)
}

fn several() -> S3Error {
    says(
        S3ErrorCode::InvalidRequest,
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn claims(headers: &[(&'static str, &'static str)]) -> S3Result<Claims> {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        Claims::from_headers(&pairs.collect())
    }

    fn check(headers: &[(&'static str, &'static str)], body: &[u8]) -> Result<(), String> {
        let claims = claims(headers).map_err(|error| error.code().as_str().to_owned())?;
        let mut digest = claims.digest();
        digest.update(body);
        claims.verify(&digest.finish(), None).map_err(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn true_claims_pass_and_false_ones_are_refused() {
        let body = b"123456789";
        assert_eq!(check(&[], body), Ok(()));
        assert_eq!(check(&[("content-md5", "JfnnlDI7RTiF9RgfGz2Oug==")], b"hello world"), Err("BadDigest".into()));
        assert_eq!(check(&[("content-md5", "JfnnlDI7RTiF9RgfGRsBBA==")], body), Err("BadDigest".into()));
        assert_eq!(check(&[("content-md5", "JfnnlDI7RTiF9RgfGw==")], body), Err("InvalidDigest".into()));
        assert_eq!(check(&[("x-amz-checksum-crc32", "y/Q5Jg==")], body), Ok(()));
        assert_eq!(check(&[("x-amz-checksum-crc32", "y/Q5Jg==")], b"12345678"), Err("BadDigest".into()));
        assert_eq!(check(&[("content-md5", "")], body), Err("InvalidDigest".into()));
        assert_eq!(check(&[("x-amz-checksum-crc32", "y/Q5")], body), Err("InvalidRequest".into()));
        assert_eq!(check(&[("x-amz-checksum-crc32", "")], body), Err("InvalidRequest".into()));
        assert_eq!(check(&[("x-amz-checksum-sha512", "AAAA")], body), Err("InvalidRequest".into()));
        assert_eq!(check(&[("x-amz-checksum-rot13", "AAAA")], body), Err("InvalidRequest".into()));
        assert_eq!(check(&[("x-amz-checksum-md5", "JfnnlDI7RTiF9RgfG2JNCw==")], body), Ok(()));
        assert_eq!(check(&[("x-amz-checksum-xxhash64", "jLhB20Dmro8=")], body), Err("BadDigest".into()));
        let (sdk, crc) = ("x-amz-sdk-checksum-algorithm", ("x-amz-checksum-crc32", "y/Q5Jg=="));
        assert_eq!(check(&[("x-amz-checksum-algorithm", "SHA256")], body), Ok(()));
        assert_eq!(check(&[(sdk, "crc32"), crc], body), Ok(()));
        assert_eq!(check(&[(sdk, "SHA256"), crc], body), Err("InvalidRequest".into()));
        assert_eq!(check(&[(sdk, "SHA256")], body), Err("InvalidRequest".into()));
        assert_eq!(check(&[(sdk, "XXHASH3"), crc], body), Err("InvalidRequest".into()));
        let two = [("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc32c", "4waSgw==")];
        assert_eq!(check(&two, body), Err("InvalidRequest".into()));
    }

    #[test]
    fn an_announced_trailer_has_to_come() {
        assert_eq!(check(&[("x-amz-trailer", "x-amz-checksum-crc32")], b""), Err("MalformedTrailerError".into()));
        assert_eq!(check(&[("x-amz-trailer", "x-amz-checksum-md5")], b""), Err("MalformedTrailerError".into()));
        assert_eq!(check(&[("x-amz-trailer", "x-amz-checksum-rot13")], b""), Err("InvalidRequest".into()));
    }

    #[test]
    fn an_object_has_the_default_checksum_where_none_is_named() {
        let of = |headers| claims(headers).unwrap().for_object().digest().finish().checksum.map(|sum| sum.algorithm);
        assert_eq!(of(&[]).as_deref(), Some("CRC64NVME"));
        assert_eq!(of(&[("x-amz-checksum-crc32", "y/Q5Jg==")]).as_deref(), Some("CRC32"));
        assert!(claims(&[]).unwrap().for_object().is_empty(), "nothing is claimed by it");
    }

    #[test]
    fn a_part_keeps_the_algorithm_of_its_upload() {
        let kept = claims(&[]).unwrap().for_part(Some(Algorithm::Sha1)).unwrap();
        assert!(kept.digest().finish().checksum.is_some_and(|checksum| checksum.algorithm == "SHA1"));
        let kept = claims(&[]).unwrap().for_part(None).unwrap();
        assert!(kept.digest().finish().checksum.is_some_and(|checksum| checksum.algorithm == "CRC64NVME"));
        let other = claims(&[("x-amz-checksum-crc32", "y/Q5Jg==")]).unwrap().for_part(Some(Algorithm::Sha1));
        assert_eq!(other.unwrap_err().code().as_str(), "InvalidRequest");
    }
}
