//! Content in a bucket of an S3 store, from the flags `--content-…`.
//!
//! - Credentials are no setting of ours: they are found by the rules of AWS, in the environment, profiles and roles.

use objstore::ContentBucket;
use objstore::bucket::{Addressing, Location, Options};

use super::Flags;
use crate::failure::Failure;

/// Reads the flag `--content-url`.
pub(crate) fn location(text: &str) -> Result<Location, String> {
    Location::parse(text).map_err(|error| match error {
        objstore::bucket::Error::Invalid { why, .. } => why,
        other => other.to_string(),
    })
}

/// The bucket for content, if there is one.
pub(super) fn content(flags: &Flags) -> Result<Option<ContentBucket>, Failure> {
    let Some(location) = &flags.content_url else {
        let alone = [
            ("--content-endpoint", flags.content_endpoint.is_some()),
            ("--content-region", flags.content_region.is_some()),
            ("--content-path-style", flags.content_path_style.is_some()),
        ];
        return match alone.into_iter().find(|(_, set)| *set) {
            None => Ok(None),
            Some((flag, _)) => Err(Failure::usage(format!(
                "{flag} is set and --content-url is not: name the bucket for content, as s3://BUCKET/PREFIX"
            ))),
        };
    };
    let (endpoint, region) = (flags.content_endpoint.clone(), flags.content_region.clone());
    let bucket = bucket(location, endpoint, region, flags.content_path_style);
    Ok(Some(ContentBucket { bucket, cache_bytes: flags.content_cache.bytes }))
}

/// How to reach a bucket.
pub(crate) fn bucket(
    location: &Location,
    endpoint: Option<String>,
    region: Option<String>,
    path_style: Option<bool>,
) -> Options {
    let addressing = match path_style {
        None => Addressing::Automatic,
        Some(true) => Addressing::Path,
        Some(false) => Addressing::Host,
    };
    Options { endpoint, region, addressing, ..Options::new(location.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(args: &[&str]) -> Result<Option<ContentBucket>, String> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Flags::augment_args(clap::Command::new("serve").no_binary_name(true));
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        content(&Flags::from_arg_matches(&matches).expect("flags")).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_bucket_is_read_and_half_a_bucket_is_refused() {
        assert!(of(&[]).unwrap().is_none());
        let full =
            ["--content-url=s3://media/one", "--content-endpoint=http://10.0.0.1:9000/", "--content-path-style=false"];
        let content = of(&full).unwrap().expect("a bucket");
        assert_eq!(content.bucket.location.to_string(), "s3://media/one");
        assert_eq!(content.bucket.endpoint.as_deref(), Some("http://10.0.0.1:9000"));
        assert_eq!(content.bucket.addressing, Addressing::Host);
        assert!(of(&["--content-endpoint=http://10.0.0.1:9000"]).unwrap_err().contains("--content-url"));
        assert!(of(&["--content-url=media"]).unwrap_err().contains("s3://BUCKET/PREFIX"));
    }
}
