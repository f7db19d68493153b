//! `amphora bucket hidden`

use proto::amphora::admin::v1::{HiddenKey, HiddenReason, ListHiddenKeysRequest};
use serde::Serialize;

use super::client::{Client, answer};
use super::output::Printer;
use crate::failure::Failure;

/// The printed form of a hidden key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HiddenKeyRow {
    key: String,
    reason: &'static str,
    explanation: &'static str,
}

impl From<HiddenKey> for HiddenKeyRow {
    fn from(hidden: HiddenKey) -> Self {
        let (reason, explanation) = match hidden.reason() {
            HiddenReason::Unspecified => ("unknown", "this version of amphora does not know the reason; upgrade it"),
            HiddenReason::EmptyName => ("empty-name", "a file cannot have an empty name"),
            HiddenReason::DotName => ("dot-name", "the names \".\" and \"..\" mean directories"),
            HiddenReason::LongName => ("long-name", "a name on a mount has at most 255 bytes"),
            HiddenReason::Folder => ("folder", "the mount shows the folder of the same name"),
        };
        Self { key: hidden.key, reason, explanation }
    }
}

/// Prints the hidden keys of a bucket or snapshot, page by page.
pub(super) async fn run(
    client: &mut Client,
    printer: &mut Printer,
    name: String,
    prefix: String,
) -> Result<(), Failure> {
    let (mut after, mut found) = (String::new(), 0_u64);
    loop {
        let request = ListHiddenKeysRequest { name: name.clone(), prefix: prefix.clone(), after, page_size: 0 };
        let page = answer(client.list_hidden_keys(request).await)?;
        for key in page.keys {
            let shown = HiddenKeyRow::from(key);
            // A key may contain line breaks and control characters, which a terminal would execute, so it is escaped.
            printer.line(&shown, &format!("{:?}  {}: {}", shown.key, shown.reason, shown.explanation))?;
            found += 1;
        }
        match page.next_after {
            Some(next) => after = next,
            None => break,
        }
    }
    if printer.is_for_people() {
        let text = match found {
            0 => "no key is hidden: mounts show all objects".to_owned(),
            _ => format!("{found} hidden; reach them by their keys through S3: get, copy to another key, or delete"),
        };
        printer.done(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_in_words_of_its_own() {
        let reasons = (1..=4).map(|reason| HiddenKeyRow::from(HiddenKey { key: "k".into(), reason }));
        let names: Vec<_> = reasons.map(|shown| (shown.reason, shown.explanation)).collect();
        assert_eq!(
            names.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["empty-name", "dot-name", "long-name", "folder"]
        );
        assert!(names.iter().all(|(_, text)| text.len() > 20), "{names:?}");
    }
}
