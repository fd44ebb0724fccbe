//! Reads which operation made a batch fail.
//!
//! A failure comes as 207: the failing operation carries its own status and *all* others, earlier ones too, carry
//! 424. `send.rs` needs it before it classifies an answer, because the failing status may be one to retry (429).

use std::time::Duration;

use serde::Deserialize;

use crate::headers;

/// The operation that made a batch fail.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failed {
    pub(crate) index: usize,
    pub(crate) status: u16,
    pub(crate) substatus: u32,
    pub(crate) retry_after: Option<Duration>,
}

impl Failed {
    /// The status by which the whole batch is classified. The batch was rolled back, so a status that leaves the
    /// outcome of a single write unknown means "nothing was written" here.
    pub(crate) fn as_answer(&self) -> u16 {
        match self.status {
            408 | 500..=599 => 503,
            status => status,
        }
    }

    /// The operation in words, from the body that was sent.
    pub(crate) fn describe(&self, sent: &[u8]) -> String {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sent {
            operation_type: String,
            id: Option<String>,
            resource_body: Option<Identified>,
        }
        #[derive(Deserialize)]
        struct Identified {
            id: Option<String>,
        }
        let sent: Option<Sent> = serde_json::from_slice::<Vec<Sent>>(sent)
            .ok()
            .and_then(|mut all| (self.index < all.len()).then(|| all.swap_remove(self.index)));
        match sent {
            Some(Sent {
                operation_type,
                id,
                resource_body,
            }) => {
                let id = id.or(resource_body.and_then(|body| body.id)).unwrap_or_default();
                format!("{} `{id}`", operation_type.to_lowercase())
            }
            None => "unknown".to_owned(),
        }
    }
}

/// Finds the operation that made the batch fail: 424 is only the consequence of another failure.
pub(crate) fn failed(answer: &[u8]) -> Option<Failed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Result {
        status_code: u16,
        #[serde(default)]
        sub_status_code: u32,
        #[serde(default)]
        retry_after_milliseconds: Option<f64>,
    }
    // The caller reads the same body, and reports it if it is unreadable.
    let results: Vec<Result> = serde_json::from_slice(answer).ok()?;
    let cause = results
        .iter()
        .position(|result| result.status_code >= 400 && result.status_code != 424);
    let index = cause.or_else(|| results.iter().position(|result| result.status_code >= 400))?;
    let result = &results[index];
    Some(Failed {
        index,
        status: result.status_code,
        substatus: result.sub_status_code,
        retry_after: result.retry_after_milliseconds.and_then(headers::milliseconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_cause_of_a_failure_is_the_operation_that_is_not_424() {
        let answer = json!([{"statusCode": 424}, {"statusCode": 412, "requestCharge": 1.2}, {"statusCode": 424}]);
        let failed = failed(answer.to_string().as_bytes()).unwrap();
        assert_eq!((failed.index, failed.status), (1, 412));
        let sent = br#"[{"operationType":"Read","id":"x"},{"operationType":"Create","resourceBody":{"id":"me"}}]"#;
        assert_eq!(failed.describe(sent), "create `me`");
    }

    #[test]
    fn a_failing_status_is_found_whatever_the_outer_status() {
        assert_eq!(failed(br#"[{"statusCode":201},{"statusCode":204}]"#), None);
        assert_eq!(failed(br#"[{"statusCode":201},{"statusCode":424}]"#).unwrap().index, 1);
        assert_eq!(failed(br#"[{"statusCode":500}]"#).unwrap().as_answer(), 503);
        let throttled = failed(br#"[{"statusCode":429,"retryAfterMilliseconds":12.5}]"#).unwrap();
        assert_eq!(throttled.retry_after, Some(Duration::from_micros(12_500)));
    }
}
