//! CORS configuration operations: PutBucketCors, GetBucketCors, DeleteBucketCors.

use http::HeaderName;
use objstore::store::{CorsRule, Settings};
use s3s::dto::{
    CORSRule, DeleteBucketCorsInput, DeleteBucketCorsOutput, GetBucketCorsInput, GetBucketCorsOutput,
    PutBucketCorsInput, PutBucketCorsOutput,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, plain, refuse, says};
use crate::names;
use crate::service::{Call, Service};

/// Methods that a rule can allow.
pub(super) const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "HEAD"];
/// The most rules of one bucket.
const RULES_MAX: usize = 100;
/// The most texts in one list of a rule: a preflight, which anyone may send, is compared with all of them.
const NAMES_MAX: usize = 100;
const ID_CHARS_MAX: usize = 255;
/// The most bytes of all texts of all rules (S3 User Guide, "Elements of a CORS configuration": 64 KB).
const BYTES_MAX: usize = 64 * 1024;

/// Replaces the rules of a bucket (S3 API, PutBucketCors).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketCorsInput>,
) -> S3Result<S3Response<PutBucketCorsOutput>> {
    call.request.prove(&request.headers)?;
    let rules = request.input.cors_configuration.cors_rules;
    if rules.is_empty() || rules.len() > RULES_MAX {
        return Err(refuse(S3ErrorCode::MalformedXML, format!("Give 1 to {RULES_MAX} rules.")));
    }
    let rules = rules.into_iter().map(parse).collect::<S3Result<Vec<_>>>()?;
    let bytes: usize = rules.iter().map(size).sum();
    if bytes > BYTES_MAX {
        return Err(bad(format!("The rules take {bytes} bytes; at most {BYTES_MAX} are kept.")));
    }
    set(call, &request.input.bucket, rules).await?;
    Ok(S3Response::new(PutBucketCorsOutput::default()))
}

/// Answers the rules of a bucket (S3 API, GetBucketCors).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketCorsInput>,
) -> S3Result<S3Response<GetBucketCorsOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    if settings.cors.is_empty() {
        return Err(plain(S3ErrorCode::NoSuchCORSConfiguration));
    }
    let rules = settings.cors.iter().cloned().map(written).collect();
    Ok(S3Response::new(GetBucketCorsOutput { cors_rules: Some(rules) }))
}

/// Removes the rules of a bucket (S3 API, DeleteBucketCors).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketCorsInput>,
) -> S3Result<S3Response<DeleteBucketCorsOutput>> {
    set(service, &request.input.bucket, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketCorsOutput::default()))
}

async fn set(service: &Service, bucket: &str, rules: Vec<CorsRule>) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    let change = move |settings: &mut Settings| {
        settings.cors = rules;
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()
}

/// Validates a rule.
fn parse(rule: CORSRule) -> S3Result<CorsRule> {
    let (headers, expose) = (rule.allowed_headers.unwrap_or_default(), rule.expose_headers.unwrap_or_default());
    if rule.allowed_origins.is_empty() || rule.allowed_methods.is_empty() {
        return Err(refuse(S3ErrorCode::MalformedXML, "A rule needs an AllowedOrigin and an AllowedMethod."));
    }
    if rule.id.as_ref().is_some_and(|id| id.chars().count() > ID_CHARS_MAX) {
        return Err(bad(format!("The ID of a rule has at most {ID_CHARS_MAX} characters.")));
    }
    if let Some(method) = rule.allowed_methods.iter().find(|method| !METHODS.contains(&method.as_str())) {
        return Err(bad(format!("Found unsupported HTTP method in CORS config. Unsupported method is {method}")));
    }
    let lists = [
        ("AllowedOrigin", &rule.allowed_origins),
        ("AllowedMethod", &rule.allowed_methods),
        ("AllowedHeader", &headers),
        ("ExposeHeader", &expose),
    ];
    if let Some((element, _)) = lists.iter().find(|(_, names)| names.len() > NAMES_MAX) {
        return Err(bad(format!("A rule has at most {NAMES_MAX} {element}; use a wildcard or another rule.")));
    }
    for (element, patterns) in [("AllowedOrigin", &rule.allowed_origins), ("AllowedHeader", &headers)] {
        check_patterns(element, patterns)?;
    }
    if let Some(name) = expose.iter().find(|name| name.contains('*') || name.parse::<HeaderName>().is_err()) {
        return Err(bad(format!("ExposeHeader \"{name}\" is not the name of a header; it has no wildcards.")));
    }
    if rule.max_age_seconds.is_some_and(|seconds| seconds < 0) {
        return Err(bad("MaxAgeSeconds is not negative."));
    }
    Ok(CorsRule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers,
        expose,
        max_age_seconds: rule.max_age_seconds,
    })
}

fn check_patterns(element: &str, patterns: &[String]) -> S3Result<()> {
    for pattern in patterns {
        if pattern.is_empty() {
            return Err(bad(format!("An {element} is empty.")));
        }
        if pattern.matches('*').count() > 1 {
            return Err(bad(format!("{element} \"{pattern}\" can not have more than one wildcard.")));
        }
    }
    Ok(())
}

fn size(rule: &CorsRule) -> usize {
    let texts = [&rule.origins, &rule.methods, &rule.headers, &rule.expose].into_iter().flatten();
    texts.map(String::len).sum::<usize>() + rule.id.as_ref().map_or(0, String::len)
}

/// A rule in the form of a response.
fn written(rule: CorsRule) -> CORSRule {
    let some = |texts: Vec<String>| (!texts.is_empty()).then_some(texts);
    CORSRule {
        id: rule.id,
        allowed_origins: rule.origins,
        allowed_methods: rule.methods,
        allowed_headers: some(rule.headers),
        expose_headers: some(rule.expose),
        max_age_seconds: rule.max_age_seconds,
    }
}

fn bad(words: impl Into<String>) -> S3Error {
    says(S3ErrorCode::InvalidRequest, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origin: &str, method: &str) -> CORSRule {
        CORSRule {
            allowed_headers: None,
            allowed_methods: vec![method.into()],
            allowed_origins: vec![origin.into()],
            expose_headers: None,
            id: None,
            max_age_seconds: None,
        }
    }

    #[test]
    fn rules_come_back_as_they_were_given() {
        let given = CORSRule {
            allowed_headers: Some(vec!["x-amz-*".into()]),
            expose_headers: Some(vec!["ETag".into()]),
            id: Some("one".into()),
            max_age_seconds: Some(3000),
            ..rule("http://*.example.com", "PUT")
        };
        assert_eq!(written(parse(given.clone()).unwrap()), given);
        assert_eq!(written(parse(rule("*", "GET")).unwrap()), rule("*", "GET"));
    }

    #[test]
    fn rules_that_cannot_be_kept_are_refused() {
        let many = |text: &str| vec![text.to_owned(); NAMES_MAX + 1];
        let table = [
            (rule("http://*.*", "GET"), "InvalidRequest"),
            (rule("", "GET"), "InvalidRequest"),
            (rule("*", "PATCH"), "InvalidRequest"),
            (rule("*", "get"), "InvalidRequest"),
            (CORSRule { allowed_headers: Some(vec!["*-*".into()]), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { expose_headers: Some(vec!["x-*".into()]), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { expose_headers: Some(vec!["a\r\nb".into()]), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { id: Some("x".repeat(256)), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { allowed_origins: many("a"), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { allowed_methods: many("GET"), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { allowed_headers: Some(many("a")), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { expose_headers: Some(many("etag")), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { max_age_seconds: Some(-1), ..rule("*", "GET") }, "InvalidRequest"),
            (CORSRule { allowed_origins: Vec::new(), ..rule("*", "GET") }, "MalformedXML"),
        ];
        for (rule, code) in table {
            assert_eq!(parse(rule.clone()).unwrap_err().code().as_str(), code, "{rule:?}");
        }
    }
}
