//! Refusals of requests: a status, and a JSON object that says what was found, where, and how to
//! fix it.
//!
//! Format: `{"error":{"message":…,"line":…,"column":…,"remedy":…}}`; `line` and `column`, counted from 1, stand there only where a
//! place in the body is to blame.
//!
//! Worked example: the body `{"jobs":[}` is refused with status 400, line 1, column 10.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request is not served.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: Text,
}

#[derive(Debug, Serialize)]
struct Text {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    remedy: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status, text: Text { message: message.into(), line: None, column: None, remedy: remedy.into() } }
    }

    /// The body says something that cannot be.
    pub(super) fn bad(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message, remedy)
    }

    /// Refusal of a body that is not the JSON it should be; `lines_before` are the lines of the
    /// body before the piece that was parsed.
    pub(super) fn json(error: &serde_json::Error, lines_before: usize, remedy: &str) -> Self {
        // serde_json ends its message with the place, which has its own fields here.
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message).to_owned();
        let mut refusal = Self::bad(message, remedy);
        // Column 0 is serde_json's way to say "before the first character of this line".
        (refusal.text.line, refusal.text.column) = (Some(error.line() + lines_before), Some(error.column().max(1)));
        refusal
    }

    /// Refusal because of a defect of this server, not of the request.
    pub(super) fn defect(message: impl Into<String>) -> Self {
        let remedy = "report it with the request that showed it; other requests are served on";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message, remedy)
    }

    /// Too much to do just now.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message, "try again in a second")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Answer {
            error: Text,
        }
        let status = self.status;
        // A struct of strings and numbers always serialises; an empty body would still carry the status.
        let body = serde_json::to_vec(&Answer { error: self.text }).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tracecast\""));
                // A stranger does not keep one of the connections.
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // What is left of a body that was not read to its end cannot be told from the next request.
            StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn json_errors_have_their_place_once() {
        let error = serde_json::from_str::<Vec<i32>>("[1,\n }").unwrap_err();
        let refusal = Refusal::json(&error, 4, "send a list");
        // The brace stands on line 2, column 2; four lines went before.
        assert_eq!((refusal.text.line, refusal.text.column), (Some(6), Some(2)));
        assert!(!refusal.text.message.contains("line"), "{}", refusal.text.message);
        assert_eq!(refusal.into_response().status(), StatusCode::BAD_REQUEST);
    }
}
