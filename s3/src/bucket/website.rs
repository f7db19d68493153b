//! PutBucketWebsite, GetBucketWebsite, DeleteBucketWebsite.

use objstore::store::{RedirectAll, RoutingRule, Settings, Website};
use s3s::dto::{
    self, DeleteBucketWebsiteInput, DeleteBucketWebsiteOutput, ErrorDocument, GetBucketWebsiteInput,
    GetBucketWebsiteOutput, IndexDocument, Protocol, PutBucketWebsiteInput, PutBucketWebsiteOutput, Redirect,
    RedirectAllRequestsTo, WebsiteConfiguration,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{OrRefuse as _, bad_argument, plain, refuse, says};
use crate::names;
use crate::service::{Call, Service};

/// Routing rules of one website (S3 User Guide, "Routing rule elements").
const RULES_MAX: usize = 50;
/// Bytes of one text: a key has as many.
const TEXT_BYTES_MAX: usize = 1024;
/// Bytes of a host.
const HOST_BYTES_MAX: usize = 255;
/// All texts together (S3 API, PutBucketWebsite: 128 KB).
const BYTES_MAX: usize = 128 * 1024;

/// Makes a bucket a website (S3 API, PutBucketWebsite).
pub(crate) async fn put(
    call: &Call,
    request: S3Request<PutBucketWebsiteInput>,
) -> S3Result<S3Response<PutBucketWebsiteOutput>> {
    call.request.prove(&request.headers)?;
    let website = parse(request.input.website_configuration)?;
    set(call, &request.input.bucket, Some(website)).await?;
    Ok(S3Response::new(PutBucketWebsiteOutput::default()))
}

/// Answers the website of a bucket (S3 API, GetBucketWebsite).
pub(crate) async fn get(
    service: &Service,
    request: S3Request<GetBucketWebsiteInput>,
) -> S3Result<S3Response<GetBucketWebsiteOutput>> {
    let bucket = names::bucket(&request.input.bucket)?;
    let settings = service.blocking(move |store| store.settings(&bucket).or_refuse()).await?.settings;
    match &settings.website {
        Some(website) => Ok(S3Response::new(written(website.clone()))),
        None => Err(plain(S3ErrorCode::NoSuchWebsiteConfiguration)),
    }
}

/// Ends the website of a bucket, if it is one (S3 API, DeleteBucketWebsite).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketWebsiteInput>,
) -> S3Result<S3Response<DeleteBucketWebsiteOutput>> {
    set(service, &request.input.bucket, None).await?;
    Ok(S3Response::new(DeleteBucketWebsiteOutput::default()))
}

async fn set(service: &Service, bucket: &str, website: Option<Website>) -> S3Result<()> {
    let bucket = names::bucket(bucket)?;
    let change = move |settings: &mut Settings| {
        settings.website = website;
        Ok(())
    };
    service.store.change_settings(&bucket, change).await.or_refuse()
}

/// Checks a website.
fn parse(given: WebsiteConfiguration) -> S3Result<Website> {
    let rules = given.routing_rules.unwrap_or_default();
    if let Some(all) = given.redirect_all_requests_to {
        if given.index_document.is_some() || given.error_document.is_some() || !rules.is_empty() {
            return Err(bad("RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules."));
        }
        let redirect_all = Some(RedirectAll { host: host(all.host_name)?, protocol: protocol(all.protocol.as_ref())? });
        return Ok(Website { redirect_all, ..Website::default() });
    }
    if rules.len() > RULES_MAX {
        let (count, most) = (rules.len(), RULES_MAX);
        return Err(bad(format!(
            "{count} routing rules provided, the number of routing rules in a website configuration is limited to {most}."
        )));
    }
    let rules = rules.into_iter().map(rule).collect::<S3Result<Vec<_>>>()?;
    let bytes: usize = rules.iter().map(size).sum();
    if bytes > BYTES_MAX {
        return Err(bad(format!("The rules take {bytes} bytes; at most {BYTES_MAX} are kept.")));
    }
    Ok(Website {
        index: Some(index(given.index_document)?),
        error: given.error_document.map(error_document).transpose()?,
        redirect_all: None,
        rules,
    })
}

fn index(given: Option<IndexDocument>) -> S3Result<String> {
    let Some(IndexDocument { suffix }) = given else {
        let words = "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty";
        return Err(bad_argument(words, "IndexDocument", "null"));
    };
    if suffix.is_empty() || suffix.contains('/') || names::key(&suffix).is_err() {
        return Err(bad_argument("The IndexDocument Suffix is not well formed", "IndexDocument", suffix));
    }
    Ok(suffix)
}

fn error_document(ErrorDocument { key }: ErrorDocument) -> S3Result<String> {
    if key.is_empty() || names::key(&key).is_err() {
        return Err(bad_argument("The ErrorDocument Key is not well formed", "ErrorDocument", key));
    }
    Ok(key)
}

fn rule(dto::RoutingRule { condition, redirect }: dto::RoutingRule) -> S3Result<RoutingRule> {
    let (key_prefix, error_code) = match condition {
        None => (None, None),
        Some(condition) => {
            let (prefix, code) = (condition.key_prefix_equals, condition.http_error_code_returned_equals);
            if prefix.is_none() && code.is_none() {
                return Err(bad(
                    "Condition cannot be empty. To redirect all requests without a condition, the condition \
                                element shouldn't be present.",
                ));
            }
            (prefix.map(text).transpose()?, code.as_deref().map(error_code).transpose()?)
        }
    };
    if redirect == Redirect::default() {
        return Err(refuse(S3ErrorCode::MalformedXML, "Give the Redirect of a routing rule at least one element."));
    }
    if redirect.replace_key_prefix_with.is_some() && redirect.replace_key_with.is_some() {
        return Err(bad("You can only define ReplaceKeyPrefix or ReplaceKey but not both."));
    }
    Ok(RoutingRule {
        key_prefix,
        error_code,
        host: redirect.host_name.map(host).transpose()?,
        redirect_code: redirect.http_redirect_code.as_deref().map(redirect_code).transpose()?,
        protocol: protocol(redirect.protocol.as_ref())?,
        replace_prefix: redirect.replace_key_prefix_with.map(text).transpose()?,
        replace_key: redirect.replace_key_with.map(text).transpose()?,
    })
}

fn error_code(code: &str) -> S3Result<u32> {
    let parsed = code.parse().ok().filter(|code| (400..600).contains(code));
    parsed
        .ok_or_else(|| bad(format!("The provided HTTP error code ({code}) is not valid. Valid codes are 4XX or 5XX.")))
}

fn redirect_code(code: &str) -> S3Result<u32> {
    let parsed = code.parse().ok().filter(|code| (301..400).contains(code));
    parsed.ok_or_else(|| {
        bad(format!("The provided HTTP redirect code ({code}) is not valid. Valid codes are 3XX except 300."))
    })
}

/// A host, with a port or not: any other character could make a redirect lead elsewhere than it says.
fn host(host: String) -> S3Result<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || host.len() > HOST_BYTES_MAX || !host.bytes().all(plain) {
        return Err(bad(format!("The HostName \"{host}\" is not the name of a host.")));
    }
    Ok(host)
}

fn protocol(given: Option<&Protocol>) -> S3Result<Option<String>> {
    match given.map(Protocol::as_str) {
        None => Ok(None),
        Some(known @ (Protocol::HTTP | Protocol::HTTPS)) => Ok(Some(known.to_owned())),
        Some(_) => {
            Err(bad("Invalid protocol, protocol can be http or https. If not defined the protocol will be selected \
                            automatically."))
        }
    }
}

/// A text of a rule.
fn text(text: String) -> S3Result<String> {
    if text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
        let words = format!(
            "A key or a prefix in a routing rule has at most {TEXT_BYTES_MAX} bytes, none of them a control \
                             character."
        );
        return Err(bad(words));
    }
    Ok(text)
}

fn size(rule: &RoutingRule) -> usize {
    let texts = [&rule.key_prefix, &rule.host, &rule.protocol, &rule.replace_prefix, &rule.replace_key];
    texts.into_iter().flatten().map(String::len).sum()
}

/// A website, as answers write it.
fn written(website: Website) -> GetBucketWebsiteOutput {
    let rules: Vec<_> = website.rules.into_iter().map(written_rule).collect();
    GetBucketWebsiteOutput {
        error_document: website.error.map(|key| ErrorDocument { key }),
        index_document: website.index.map(|suffix| IndexDocument { suffix }),
        redirect_all_requests_to: website
            .redirect_all
            .map(|all| RedirectAllRequestsTo { host_name: all.host, protocol: all.protocol.map(Protocol::from) }),
        routing_rules: (!rules.is_empty()).then_some(rules),
    }
}

fn written_rule(rule: RoutingRule) -> dto::RoutingRule {
    let condition = dto::Condition {
        http_error_code_returned_equals: rule.error_code.map(|code| code.to_string()),
        key_prefix_equals: rule.key_prefix,
    };
    dto::RoutingRule {
        condition: (condition != dto::Condition::default()).then_some(condition),
        redirect: Redirect {
            host_name: rule.host,
            http_redirect_code: rule.redirect_code.map(|code| code.to_string()),
            protocol: rule.protocol.map(Protocol::from),
            replace_key_prefix_with: rule.replace_prefix,
            replace_key_with: rule.replace_key,
        },
    }
}

fn bad(words: impl Into<String>) -> S3Error {
    says(S3ErrorCode::InvalidRequest, words)
}
