//! Which ids a document may have.

use serde_json::Value;

use super::Refusal;

const MAX_ID_BYTES: usize = 1023;

/// Refuses an id that the service refuses, or that no path could address.
pub(super) fn check(id: &str) -> Result<(), Refusal> {
    let fault = if id.is_empty() {
        "is empty"
    } else if id.len() > MAX_ID_BYTES {
        "is longer than 1023 bytes"
    } else if id.ends_with(' ') {
        "ends in a space"
    } else if id.contains(['/', '\\', '?', '#']) {
        "contains one of the characters / \\ ? #"
    } else if id.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    Err(Refusal::bad_request(format!("The id '{}' {fault}.", id.escape_debug())))
}

/// Refuses a document without a valid id.
pub(super) fn check_document(document: &Value) -> Result<(), Refusal> {
    match document.get("id") {
        Some(Value::String(id)) => check(id),
        Some(_) => Err(Refusal::bad_request(
            "The input content is invalid because the property 'id' is no string.",
        )),
        None => Err(Refusal::bad_request(
            "The input content is invalid because the required property 'id' is missing.",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_must_be_addressable() {
        let longest = "x".repeat(1023);
        for id in ["a", "a b", "a:b._-c", "100%", "é", &longest] {
            assert!(check(id).is_ok(), "{id}");
        }
        let too_long = "x".repeat(1024);
        for id in ["", "a/b", "a\\b", "a?b", "a#b", "a ", "a\nb", "\u{7f}", &too_long] {
            assert!(check(id).is_err(), "{id}");
        }
    }
}
