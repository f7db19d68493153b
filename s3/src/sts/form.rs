//! The parameters of a request: a form as browsers encode it (AWS Query protocol).
//!
//! - A parameter that is given twice is refused: which of the two counts would depend on the reader.
//! - A parameter that an action does not take is refused by name, never ignored: it may restrict what is asked for.

use percent_encoding::percent_decode;

use super::fault::Fault;

/// The most parameters of a request.
const PARAMETERS_MAX: usize = 64;
/// Parameters that every action takes.
const COMMON: [&str; 2] = ["Action", "Version"];

/// The parameters of a request, by name.
#[derive(Debug)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in bytes.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = (&pair[..at], pair.get(at + 1..).unwrap_or_default());
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(Fault::validation("a parameter is not UTF-8"));
            };
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(Fault::validation(format!("the parameter {} is given twice", shown(&name))));
            }
            if pairs.len() == PARAMETERS_MAX {
                return Err(Fault::validation(format!("more than {PARAMETERS_MAX} parameters are given")));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// A parameter, if it is given and not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(given, _)| given == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// A parameter that has to be given.
    pub(super) fn require(&self, name: &'static str) -> Result<&str, Fault> {
        self.get(name).ok_or_else(|| Fault::missing(name))
    }

    /// Refuses parameters other than these.
    pub(super) fn allow(&self, names: &[&str]) -> Result<(), Fault> {
        let unknown = self.0.iter().find(|(name, value)| {
            !value.is_empty() && !names.contains(&name.as_str()) && !COMMON.contains(&name.as_str())
        });
        match unknown {
            None => Ok(()),
            Some((name, _)) => Err(Fault::validation(format!(
                "The parameter {} is not supported by this action of Amphora; leave it out",
                shown(name)
            ))),
        }
    }
}

/// A name for a message.
fn shown(name: &str) -> String {
    name.chars().take(64).collect()
}

fn decode(text: &[u8]) -> Option<String> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_given_once() {
        let form = Form::parse(b"Action=AssumeRole&Version=2011-06-15&Policy=%7B+%22a%22%3A1%7D&Empty=&&=").unwrap();
        assert_eq!(form.get("Action"), Some("AssumeRole"));
        assert_eq!(form.get("Policy"), Some("{ \"a\":1}"));
        assert_eq!((form.get("Empty"), form.get("absent")), (None, None));
        assert!(form.allow(&["Policy"]).is_ok() && form.allow(&[]).is_err());
        assert!(Form::parse(b"a=1&a=2").is_err() && Form::parse(b"a=1&%61=2").is_err());
        assert!(Form::parse(b"a=%ff").is_err());
        let many: Vec<String> = (0..=PARAMETERS_MAX).map(|number| format!("p{number}=1")).collect();
        assert!(Form::parse(many.join("&").as_bytes()).is_err());
        assert!(Form::parse(many[1..].join("&").as_bytes()).is_ok());
    }
}
