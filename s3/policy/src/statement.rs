//! Statements of a policy.

use super::action::{Actions, Kinds};
use super::condition::{Condition, Known};
use super::json::Json;
use super::key::Key;
use super::pattern::{Pattern, Variables};
use super::principal::Principals;
use super::public::{Reach, is_wide};
use super::question::{Question, Scope};
use super::resource::Resources;
use super::syntax::{Malformed, texts};

/// The origin of a policy, which decides how strictly it is parsed.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// A client sets it. The function says whether an account exists.
    Put(&'a dyn Fn(&str) -> bool),
    /// It was stored earlier, possibly under fewer rules.
    Stored,
    /// It narrows the rights of a session.
    Session,
}

impl Origin<'_> {
    /// Whether a statement may name this account. Accounts of a stored policy may have been deleted; their names then
    /// match no one.
    pub(super) fn knows(self, account: &str) -> bool {
        match self {
            Self::Put(exists) => exists(account),
            Self::Stored | Self::Session => true,
        }
    }
}

/// A list of what a statement applies to, or of what it does not apply to.
#[derive(Debug)]
enum Listed<T> {
    These(T),
    AllBut(T),
}

impl<T> Listed<T> {
    fn include(&self, among: impl FnOnce(&T) -> bool) -> bool {
        match self {
            Self::These(list) => among(list),
            Self::AllBut(list) => !among(list),
        }
    }

    fn list(&self) -> &T {
        match self {
            Self::These(list) | Self::AllBut(list) => list,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Allow,
    Deny,
}

/// A statement.
#[derive(Debug)]
pub(super) struct Statement {
    effect: Effect,
    principals: Listed<Principals>,
    actions: Listed<Actions>,
    resources: Listed<Resources>,
    conditions: Vec<Condition>,
}

const FIELDS: [&str; 9] =
    ["Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"];

impl Statement {
    /// Parses a statement of the policy of `bucket`, or of a session.
    pub(super) fn parse(
        given: &Json,
        bucket: Option<&str>,
        variables: Variables,
        origin: Origin<'_>,
    ) -> Result<Self, Malformed> {
        let Json::Object(members) = given else {
            return Err(Malformed("Invalid policy syntax: a statement is an object.".into()));
        };
        if let Some((name, _)) = members.iter().find(|(name, _)| !FIELDS.contains(&name.as_str())) {
            return Err(Malformed(format!("Unknown field {name}.")));
        }
        let member = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        if member("Sid").is_some_and(|sid| !matches!(sid, Json::Text(_))) {
            return Err(Malformed("Invalid policy syntax: Sid is a text.".into()));
        }
        let statement = Self {
            effect: effect(member("Effect"))?,
            principals: principals(member("Principal"), member("NotPrincipal"), origin)?,
            actions: listed(member("Action"), member("NotAction"), "Action", |given| {
                Actions::parse(&texts("Action", given)?, matches!(origin, Origin::Session))
            })?,
            resources: listed(member("Resource"), member("NotResource"), "Resource", |given| {
                Resources::parse(&texts("Resource", given)?, bucket, variables)
            })?,
            conditions: match member("Condition") {
                Some(given) => Condition::parse_all(given, variables)?,
                None => Vec::new(),
            },
        };
        if !matches!(origin, Origin::Session) {
            statement.check()?;
        }
        Ok(statement)
    }

    /// Checks that the parts fit together.
    fn check(&self) -> Result<(), Malformed> {
        if self.effect == Effect::Allow && matches!(self.principals, Listed::AllBut(_)) {
            return Err(Malformed("Allow with NotPrincipal is not allowed: name those you allow.".into()));
        }
        if let (Listed::These(actions), Listed::These(resources)) = (&self.actions, &self.resources) {
            let kinds = resources.kinds();
            if !actions.kinds().all(|action| action.meets(kinds)) {
                return Err(Malformed("Action does not apply to any resource(s) in statement.".into()));
            }
        }
        Ok(())
    }

    /// Whether this statement, number `number`, applies to a question.
    pub(super) fn is_about(&self, number: usize, question: &Question<'_>) -> bool {
        let Question { account, action, resource, facts } = *question;
        let hold = |of_object| {
            let mut conditions = self.conditions.iter().filter(|condition| condition.asks_object() == of_object);
            conditions.all(|condition| condition.holds(facts))
        };
        self.principals.include(|principals| principals.include(account))
            && self.actions.include(|actions| actions.include(action))
            && self.resources.include(|resources| resources.include(resource, facts))
            && facts.once(number, &|| hold(false))
            && hold(true)
    }

    /// Whether it could apply once the body of the request is read.
    pub(super) fn could_be_about(&self, question: &Question<'_>, scope: Scope) -> bool {
        let Question { account, action, resource, facts } = *question;
        let open = |pattern: &Pattern| pattern.keys().any(Key::is_known_late);
        let on_resource = || {
            self.resources.list().patterns().any(open)
                || self.resources.include(|resources| resources.include(resource, facts))
        };
        self.principals.include(|principals| principals.include(account))
            && self.actions.include(|actions| actions.include(action))
            && (scope == Scope::SomeKey || on_resource())
            && self.conditions.iter().all(|condition| condition.is_known_late() || condition.holds(facts))
    }

    pub(super) fn denies(&self) -> bool {
        self.effect == Effect::Deny
    }

    /// The callers that it allows.
    pub(super) fn reach(&self) -> Reach<'_> {
        let everyone = matches!(self.principals, Listed::These(Principals::Everyone) | Listed::AllBut(_));
        if self.denies() || !everyone || self.conditions.iter().any(Condition::names_callers) {
            return Reach::Named;
        }
        // All conditions have to hold, so one narrow condition is enough.
        let mut ranges = self.conditions.iter().filter_map(Condition::source_ranges).peekable();
        let any = ranges.peek().copied();
        ranges.find(|nets| !is_wide(nets)).or(any).map_or(Reach::Anybody, Reach::Ranges)
    }

    /// Whether it may apply to what an account does without a request, as far as `known` says: an action on some
    /// resource of these kinds.
    pub(super) fn may_be_about(&self, account: &str, (action, kinds): (&str, Kinds), known: &dyn Known) -> bool {
        let of_kinds = match &self.resources {
            Listed::These(resources) => resources.kinds().meets(kinds),
            Listed::AllBut(_) => true,
        };
        of_kinds
            && self.principals.include(|principals| principals.include(Some(account)))
            && self.actions.include(|actions| actions.include(action))
            && self.conditions.iter().all(|condition| condition.may_hold(known))
    }

    /// Its condition keys that no request has a value for.
    pub(super) fn keys_without_values(&self) -> impl Iterator<Item = &Key> {
        let of_resources = self.resources.list().patterns().flat_map(Pattern::keys).filter(|key| !key.has_values());
        of_resources.chain(self.conditions.iter().flat_map(Condition::keys_without_values))
    }

    /// The statement without conditions on keys that have no values: dropped if it allows; a denying one applies
    /// regardless of those keys.
    pub(super) fn without_these_keys(mut self) -> Option<Self> {
        if !self.denies() {
            return None;
        }
        if self.resources.list().patterns().flat_map(Pattern::keys).any(|key| !key.has_values()) {
            self.resources = Listed::AllBut(Resources::none());
        }
        self.conditions.retain(|condition| condition.keys_without_values().next().is_none());
        Some(self)
    }

    /// Whether a condition or variable refers to such a key.
    pub(super) fn mentions(&self, wanted: impl Fn(&Key) -> bool) -> bool {
        let conditions = self.conditions.iter().map(Condition::key);
        let patterns = self.resources.list().patterns().chain(self.conditions.iter().flat_map(Condition::patterns));
        conditions.chain(patterns.flat_map(Pattern::keys)).any(wanted)
    }
}

/// The principals of a statement; that of a session is about its session alone.
fn principals(
    these: Option<&Json>,
    all_but: Option<&Json>,
    origin: Origin<'_>,
) -> Result<Listed<Principals>, Malformed> {
    match (origin, these.or(all_but)) {
        (Origin::Session, None) => Ok(Listed::These(Principals::Everyone)),
        (Origin::Session, Some(_)) => Err(Malformed("A session policy has no Principal: remove it.".into())),
        _ => listed(these, all_but, "Principal", |given| Principals::parse(given, &|account| origin.knows(account))),
    }
}

fn effect(given: Option<&Json>) -> Result<Effect, Malformed> {
    match given {
        Some(Json::Text(effect)) if effect == "Allow" => Ok(Effect::Allow),
        Some(Json::Text(effect)) if effect == "Deny" => Ok(Effect::Deny),
        Some(Json::Text(effect)) => Err(Malformed(format!("Invalid effect: {effect}; use Allow or Deny."))),
        Some(_) => Err(Malformed("Invalid policy syntax: Effect is a text.".into())),
        None => Err(Malformed("Missing required field Effect.".into())),
    }
}

/// One of two elements, exactly one of which has to be present.
fn listed<T>(
    these: Option<&Json>,
    all_but: Option<&Json>,
    name: &str,
    read: impl FnOnce(&Json) -> Result<T, Malformed>,
) -> Result<Listed<T>, Malformed> {
    match (these, all_but) {
        (Some(given), None) => read(given).map(Listed::These),
        (None, Some(given)) => read(given).map(Listed::AllBut),
        (None, None) => Err(Malformed(format!("Missing required field {name}."))),
        (Some(_), Some(_)) => {
            Err(Malformed(format!("Invalid policy syntax: {name} and Not{name} exclude each other.")))
        }
    }
}
