//! Resources in policies: the bucket, or keys in it.

use super::action::Kinds;
use super::pattern::{Case, Pattern, Variables, Wildcards};
use super::question::Facts;
use super::syntax::Malformed;

const ARN: &str = "arn:aws:s3:::";

/// Resources with wildcards and variables.
#[derive(Debug)]
pub(super) struct Resources(Vec<(Pattern, Kinds)>);

impl Resources {
    /// Parses the names; each has to match something in `bucket`, if one is given. Otherwise `*` is everything.
    pub(super) fn parse(names: &[String], bucket: Option<&str>, variables: Variables) -> Result<Self, Malformed> {
        let one = |name: &String| {
            if name == "*" && bucket.is_none() {
                let all = Pattern::parse(name, Wildcards::Special, variables, Case::Matters).map_err(Malformed)?;
                return Ok((all, Kinds { bucket: true, object: true }));
            }
            let text = name.strip_prefix(ARN).filter(|text| !text.is_empty());
            let text = text.ok_or_else(|| {
                Malformed(format!("Policy has invalid resource: \"{name}\" does not begin with {ARN} and a bucket."))
            })?;
            let parse = |text: &str| Pattern::parse(text, Wildcards::Special, variables, Case::Matters);
            let (whole, named) = match text.split_once('/') {
                Some((named, _)) => (Kinds { bucket: false, object: true }, named),
                None => (Kinds { bucket: true, object: text.contains('*') }, text),
            };
            let place = parse(named).map_err(Malformed)?;
            if let Some(bucket) = bucket.filter(|bucket| !place.may_match(bucket)) {
                let words = format!("Policy has invalid resource: \"{name}\" is not of the bucket \"{bucket}\".");
                return Err(Malformed(words));
            }
            Ok((parse(text).map_err(Malformed)?, whole))
        };
        names.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// No resource.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether they include `bucket` or `bucket/key`.
    pub(super) fn include(&self, resource: &str, facts: &dyn Facts) -> bool {
        self.0.iter().any(|(pattern, _)| pattern.matches(resource, facts))
    }

    /// The kinds of all of them together.
    pub(super) fn kinds(&self) -> Kinds {
        self.0.iter().fold(Kinds::default(), |all, (_, kinds)| all.with(*kinds))
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter().map(|(pattern, _)| pattern)
    }
}
