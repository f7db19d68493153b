//! A parsed error response.

use crate::signatures::{Answer, Request};

/// The parts of an answer that are compared.
#[derive(Debug)]
pub struct ErrorElements {
    pub status: u16,
    head: String,
    pub body: String,
}

/// A request, and AWS's answer to it.
pub struct Case {
    pub request: Request,
    pub status: u16,
    pub code: &'static str,
    pub message: &'static str,
    pub elements: &'static [(&'static str, &'static str)],
}

impl ErrorElements {
    pub fn of(answer: &Answer) -> Self {
        let (head, body) = answer.text.split_once("\r\n\r\n").unwrap_or((&answer.text, ""));
        Self { status: answer.status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The text of an element of the error document, unescaped.
    pub fn element(&self, name: &str) -> Option<String> {
        let (_, rest) = self.body.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    }
}

impl Case {
    /// The difference between an answer and this one; `None` if they are equal.
    pub fn differs(&self, actual: &ErrorElements) -> Option<String> {
        let mut expected = vec![("Code", self.code), ("Message", self.message)];
        expected.extend(self.elements);
        let found = |name: &str| actual.element(name).unwrap_or_default();
        let wrong: Vec<String> = expected
            .iter()
            .filter(|(name, value)| found(name) != *value)
            .map(|(name, value)| format!("{name} is {:?}, not {value:?}", found(name)))
            .chain((actual.status != self.status).then(|| format!("status is {}, not {}", actual.status, self.status)))
            .collect();
        let Request { method, path, query, .. } = &self.request;
        (!wrong.is_empty()).then(|| format!("{method} {path}?{query}: {}\n    {}", wrong.join("; "), actual.body))
    }
}
