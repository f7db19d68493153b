//! An error as a page of HTML, as AWS's website endpoint writes it.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use s3s::HttpResponse;

use crate::error::Failure;
use crate::request::Request;

/// The failure of the error document itself, in the extensions of an answer.
#[derive(Clone, Debug)]
pub(super) struct OfErrorDocument(pub(super) Failure);

/// Writes the failure that an answer carries, and notes its code.
pub(in crate::layer) fn tell_failure(answer: &mut HttpResponse, request: &Request, host_id: &str) {
    let Some(failure) = answer.extensions_mut().remove::<Failure>() else { return };
    let of_document = answer.extensions_mut().remove::<OfErrorDocument>();
    let mut list = items(&failure);
    list.push_str(&item("RequestId", &request.id));
    list.push_str(&item("HostId", host_id));
    let title = title(answer.status());
    let custom = of_document.map_or_else(String::new, |OfErrorDocument(failure)| {
        let heading = "An Error Occurred While Attempting to Retrieve a Custom Error Document";
        format!("<h3>{heading}</h3>\n<ul>\n{}</ul>\n", items(&failure))
    });
    let page = format!(
        "<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n<ul>\n{list}</ul>\n{custom}<hr/>\n</body>\n\
         </html>\n"
    );
    *answer.body_mut() = s3s::Body::from(page);
    let headers = answer.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    for (name, value) in [("x-amz-error-code", &failure.code), ("x-amz-error-message", &failure.message)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    request.set_error_code(failure.code);
}

fn title(status: StatusCode) -> String {
    format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or("Error"))
}

fn items(failure: &Failure) -> String {
    let mut list = item("Code", &failure.code) + &item("Message", &failure.message);
    if let Some(key) = failure.element("Key") {
        list.push_str(&item("Key", key));
    }
    list
}

fn item(name: &str, value: &str) -> String {
    format!("<li>{name}: {}</li>\n", escaped(value))
}

/// Text that stands in HTML as it is.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            one if one.is_control() => html.push('\u{fffd}'),
            one => html.push(one),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_request_is_never_markup() {
        assert_eq!(escaped("<script>'\"&\u{1}ü"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}ü");
    }
}
