//! Evaluation of a bucket's lifecycle rules for one item: pure decisions.

use std::collections::BTreeMap;

use super::Day;
use crate::clock::Timestamp;
use crate::record::inode::Inode;
use crate::record::lifecycle::Phase;
use crate::record::settings::{LifecycleFilter, LifecycleRule};

/// The rules of a bucket at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// All rules.
    pub rules: &'a [LifecycleRule],
    /// The length of a day.
    pub day: Day,
    /// The current time.
    pub now: Timestamp,
}

/// The item that filters are applied to.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The key.
    pub key: &'a str,
    /// Size and tags; a delete marker has neither.
    pub content: Option<(u64, &'a BTreeMap<String, String>)>,
}

impl<'a> Subject<'a> {
    /// An object.
    pub fn object(key: &'a str, inode: &'a Inode) -> Self {
        static NO_TAGS: BTreeMap<String, String> = BTreeMap::new();
        let tags = inode.object.as_ref().map_or(&NO_TAGS, |object| &object.tags);
        Self { key, content: Some((inode.size, tags)) }
    }

    /// A delete marker.
    pub fn marker(key: &'a str) -> Self {
        Self { key, content: None }
    }
}

impl<'a> Rules<'a> {
    fn enabled(self) -> impl Iterator<Item = &'a LifecycleRule> {
        self.rules.iter().filter(|rule| rule.enabled)
    }

    fn matching(self, subject: Subject<'a>) -> impl Iterator<Item = &'a LifecycleRule> {
        self.enabled().filter(move |rule| matches(rule.filter.as_ref(), subject))
    }

    /// Whether a current object written at `written` is due.
    pub fn current_due(self, subject: Subject<'a>, written: Timestamp) -> bool {
        self.expiry(subject, written).is_some_and(|(due, _)| due <= self.now)
    }

    /// When a current object expires, and by which rule: the first to be due.
    pub fn expiry(self, subject: Subject<'a>, written: Timestamp) -> Option<(Timestamp, &'a LifecycleRule)> {
        let due = self.matching(subject).filter_map(|rule| Some((self.due_by(rule, written)?, rule)));
        due.min_by_key(|(due, _)| *due)
    }

    fn due_by(self, rule: &LifecycleRule, written: Timestamp) -> Option<Timestamp> {
        let by_age = rule.expire_days.map(|days| self.day.due(written, days));
        by_age.or(rule.expire_date.map(Timestamp))
    }

    /// Whether a noncurrent version is due that became noncurrent at `since`, with `newer` noncurrent versions with
    /// content above it.
    pub fn noncurrent_due(self, subject: Subject<'a>, since: Timestamp, newer: u32) -> bool {
        self.matching(subject).any(|rule| {
            let due = rule.noncurrent_days.is_some_and(|days| self.day.due(since, days) <= self.now);
            due && newer >= rule.noncurrent_kept.unwrap_or(0)
        })
    }

    /// Whether a delete marker is due that was made at `made` and is the only version of its key. A rule may say so
    /// explicitly; a rule that expires current objects applies once the marker has the required age.
    pub fn lone_marker_due(self, key: &'a str, made: Timestamp) -> bool {
        self.matching(Subject::marker(key))
            .any(|rule| rule.expire_markers == Some(true) || self.due_by(rule, made).is_some_and(|due| due <= self.now))
    }

    /// Whether an upload created at `begun` is due.
    pub fn upload_due(self, key: &'a str, begun: Timestamp) -> bool {
        self.matching(Subject::marker(key))
            .any(|rule| rule.abort_upload_days.is_some_and(|days| self.day.due(begun, days) <= self.now))
    }

    /// The most newer versions that have to be counted.
    pub fn kept_max(self) -> u32 {
        self.enabled().filter_map(|rule| rule.noncurrent_kept).max().unwrap_or(0)
    }

    /// The prefixes in which a phase has items to examine: sorted, none within another.
    pub fn areas(self, phase: Phase) -> Vec<&'a str> {
        let concerned = self.enabled().filter(|rule| concerns(rule, phase));
        let mut prefixes: Vec<&str> = concerned.map(prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup_by(|next, kept| next.starts_with(&**kept));
        prefixes
    }
}

fn prefix(rule: &LifecycleRule) -> &str {
    rule.filter.as_ref().and_then(|filter| filter.prefix.as_deref()).unwrap_or_default()
}

fn concerns(rule: &LifecycleRule, phase: Phase) -> bool {
    let expires = rule.expire_days.is_some() || rule.expire_date.is_some();
    match phase {
        Phase::Keys => expires,
        Phase::Versions => expires || rule.noncurrent_days.is_some() || rule.expire_markers == Some(true),
        Phase::Uploads => rule.abort_upload_days.is_some(),
    }
}

fn matches(filter: Option<&LifecycleFilter>, subject: Subject<'_>) -> bool {
    let Some(filter) = filter else { return true };
    if filter.prefix.as_ref().is_some_and(|prefix| !subject.key.starts_with(prefix.as_str())) {
        return false;
    }
    let Some((size, tags)) = subject.content else {
        return filter.tags.is_empty() && filter.size_above.is_none() && filter.size_below.is_none();
    };
    filter.tags.iter().all(|(name, value)| tags.get(name) == Some(value))
        && filter.size_above.is_none_or(|least| size > least)
        && filter.size_below.is_none_or(|most| size < most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: Option<&str>, change: impl FnOnce(&mut LifecycleRule)) -> LifecycleRule {
        let filter = LifecycleFilter { prefix: prefix.map(str::to_owned), ..LifecycleFilter::default() };
        let mut rule = LifecycleRule { enabled: true, filter: Some(filter), ..LifecycleRule::default() };
        change(&mut rule);
        rule
    }

    fn at(rules: &[LifecycleRule], now: i64) -> Rules<'_> {
        Rules { rules, day: Day::new(std::time::Duration::from_nanos(10)), now: Timestamp(now) }
    }

    #[test]
    fn areas_are_what_rules_name_and_none_within_another() {
        let days = |rule: &mut LifecycleRule| rule.expire_days = Some(1);
        let rules = [
            rule(Some("b/"), days),
            rule(Some("a"), days),
            rule(Some("a/x"), days),
            rule(Some("c"), |rule| rule.noncurrent_days = Some(1)),
            rule(Some(""), |rule| (rule.enabled, rule.expire_days) = (false, Some(1))),
            rule(None, |rule| rule.abort_upload_days = Some(1)),
        ];
        assert_eq!(at(&rules, 0).areas(Phase::Keys), ["a", "b/"]);
        assert_eq!(at(&rules, 0).areas(Phase::Versions), ["a", "b/", "c"]);
        assert_eq!(at(&rules, 0).areas(Phase::Uploads), [""]);
    }

    #[test]
    fn the_rule_that_is_due_first_expires_an_object() {
        let rules = [
            rule(Some("k"), |rule| (rule.id, rule.expire_days) = ("late".into(), Some(5))),
            rule(Some(""), |rule| (rule.id, rule.expire_date) = ("date".into(), Some(30))),
            rule(Some("other"), |rule| rule.expire_days = Some(1)),
        ];
        let none = BTreeMap::new();
        let subject = Subject { key: "key", content: Some((1, &none)) };
        let (due, by) = at(&rules, 0).expiry(subject, Timestamp(0)).unwrap();
        assert_eq!((due.0, by.id.as_str()), (30, "date"));
        assert!(!at(&rules, 29).current_due(subject, Timestamp(0)));
        assert!(at(&rules, 30).current_due(subject, Timestamp(0)));
    }

    #[test]
    fn filters_hold_all_or_nothing() {
        let tags: BTreeMap<String, String> = [("a".to_owned(), "1".to_owned())].into();
        let filter = LifecycleFilter {
            tags: tags.clone(),
            size_above: Some(5),
            size_below: Some(9),
            ..LifecycleFilter::default()
        };
        let subject = |size, tags| Subject { key: "k", content: Some((size, tags)) };
        for (size, fits) in [(5, false), (6, true), (8, true), (9, false)] {
            assert_eq!(matches(Some(&filter), subject(size, &tags)), fits, "{size}");
        }
        assert!(!matches(Some(&filter), subject(6, &BTreeMap::new())));
        assert!(!matches(Some(&filter), Subject::marker("k")));
        assert!(matches(None, Subject::marker("k")));
    }
}
