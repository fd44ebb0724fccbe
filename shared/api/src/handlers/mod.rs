//! One file per group of routes. A handler reads its path, query and body, calls the store, and answers with a view.

pub(crate) mod batches;
pub(crate) mod dashboard;
pub(crate) mod dead_letters;
pub(crate) mod details;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod fork;
pub(crate) mod instances;
pub(crate) mod manage;
pub(crate) mod numbers;
pub(crate) mod pause;
pub(crate) mod restart;
pub(crate) mod rewind;
pub(crate) mod send;
pub(crate) mod service;
pub(crate) mod start;

use crate::refusal::Refusal;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// Lambda passes at most 6 MB on, as text. A page of the API stops before that.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

type Answer = Result<Response, Refusal>;

/// A JSON answer.
fn answer(status: StatusCode, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer cannot be written as JSON");
        Refusal::internal()
    })?;
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

fn ok(value: &impl Serialize) -> Answer {
    answer(StatusCode::OK, value)
}

/// How many of these items fit a page, by number and by bytes; at least one, if there is one.
fn page_length<T>(items: &[T], most: usize, bytes: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0;
    let fits = |item: &&T| {
        sum += bytes(item);
        sum <= PAGE_BYTES
    };
    let fitting = items.iter().take(most).take_while(fits).count();
    fitting.max(1).min(items.len())
}

/// Refuses an id that no instance can have, before the store is asked.
fn check_known(instance: &str) -> Result<(), Refusal> {
    let can_exist = (1..=cosmos::MAX_PARTITION_KEY_BYTES).contains(&instance.len());
    can_exist.then_some(()).ok_or_else(|| Refusal::no_instance(instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded_by_number_and_by_bytes() {
        let length = |sizes: &[usize], most| page_length(sizes, most, |size| *size);
        assert_eq!(length(&[], 10), 0);
        assert_eq!(length(&[1, 1, 1], 2), 2);
        assert_eq!(length(&[PAGE_BYTES, 1, 1], 10), 1);
        assert_eq!(length(&[PAGE_BYTES + 1, 1], 10), 1, "a large item is a page of its own");
        assert_eq!(length(&[PAGE_BYTES - 1, 1, 1], 10), 2);
    }
}
