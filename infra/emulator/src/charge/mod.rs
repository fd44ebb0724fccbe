//! Request charges: the estimated price of each request, in `x-ms-request-charge` and in the counters.
//!
//! `model` has the prices and their sources. This module knows what a request did. A write has a price by the document before and
//! after it, so the account remembers the [`Footprint`](crate::strict::Footprint) of what it wrote; one that it does not know (a
//! restart, `CosmosServer::load`) it reads. The memory is only for speed, and may be dropped at any time.
//!
//! The price of a failed batch: the operations before the one that fails in full, because the service has done them, and nothing
//! for those behind it. Requests about databases and containers, refused requests, 429 and 5xx are free.

mod footprints;
mod model;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde_json::value::{RawValue, to_raw_value};

pub(crate) use footprints::Footprints;
pub(crate) use model::QueryPage;

use crate::http::{ITEM_COUNT, REQUEST_CHARGE, Reply};
use crate::strict::{Footprint, TouchKind, Touched};

/// Sets the charge of a point read.
pub(crate) fn charge_read(reply: &mut Reply) {
    let price = match reply.status {
        status if status.is_success() => model::read(Some(reply.body.len())),
        StatusCode::NOT_FOUND => model::read(None),
        _ => 0.0,
    };
    set(reply, price);
}

/// Sets the charge of a page of a query. The page knows its partitions and what it examined; the rest is in the reply.
pub(crate) fn charge_query(reply: &mut Reply, page: QueryPage) {
    let returned = reply.header(ITEM_COUNT).and_then(|count| count.parse().ok());
    let page = QueryPage {
        returned: returned.unwrap_or_default(),
        bytes: reply.body.len(),
        ..page
    };
    let price = if reply.is_success() { model::query(page) } else { 0.0 };
    set(reply, price);
}

/// Makes a reply free.
pub(crate) fn charge_nothing(reply: &mut Reply) {
    set(reply, 0.0);
}

/// The charge of a reply, in hundredths.
pub(crate) fn hundredths(reply: &Reply) -> u64 {
    let price: f64 = reply
        .header(REQUEST_CHARGE)
        .and_then(|price| price.parse().ok())
        .unwrap_or_default();
    (price * 100.0).round() as u64
}

/// Sets the charge of a write alone that failed.
pub(crate) fn charge_failed_write(reply: &mut Reply) {
    let price = price_of_failure(reply.status.as_u16());
    set(reply, price);
}

/// Sets the charge of a write of one document.
pub(crate) fn charge_write(reply: &mut Reply, touched: &Touched, before: Option<&Footprint>) {
    let price = if reply.is_success() {
        price(touched, before, reply.status.as_u16())
    } else {
        price_of_failure(reply.status.as_u16())
    };
    set(reply, price);
}

/// Sets the charges of a batch: of each operation, and their sum. `before` has the documents before the batch.
pub(crate) fn charge_batch(reply: &mut Reply, touched: &[Touched], before: &HashMap<String, Footprint>) {
    let Ok(mut results) = serde_json::from_slice::<Vec<BTreeMap<String, Box<RawValue>>>>(&reply.body) else {
        return charge_nothing(reply);
    };
    let statuses: Vec<u16> = results.iter().map(status_of).collect();
    let failed = statuses.iter().position(|status| !matches!(status, 200..=299 | 424));
    let mut current: HashMap<&str, Option<&Footprint>> = HashMap::new();
    let mut sum = 0.0;
    for (at, (result, touched)) in results.iter_mut().zip(touched).enumerate() {
        let old = current
            .get(touched.id.as_str())
            .copied()
            .unwrap_or_else(|| before.get(&touched.id));
        let price = match failed {
            Some(failed) if at > failed => 0.0,
            Some(failed) if at == failed => price_of_failure(statuses[at]),
            _ => price(touched, old, statuses[at]),
        };
        let price = (price * 100.0).round() / 100.0;
        sum += price;
        if touched.kind != TouchKind::Read {
            current.insert(&touched.id, touched.written.as_ref());
        }
        if let Ok(price) = to_raw_value(&price) {
            result.insert("requestCharge".to_owned(), price);
        }
    }
    if let Ok(body) = serde_json::to_vec(&results) {
        reply.body = Bytes::from(body);
    }
    set(reply, sum);
}

fn status_of(result: &BTreeMap<String, Box<RawValue>>) -> u16 {
    let status = result.get("statusCode").map(|status| status.get().parse());
    status.and_then(Result::ok).unwrap_or_default()
}

/// The price of an operation that was done, or that would have been done if a later one had not failed (424).
fn price(touched: &Touched, before: Option<&Footprint>, status: u16) -> f64 {
    let new = touched.written.as_ref();
    match (touched.kind, before, new) {
        (TouchKind::Read, before, _) => model::read(before.map(|document| document.bytes)),
        (TouchKind::Delete, Some(old), _) => model::delete(old),
        (TouchKind::Create, _, Some(new)) => model::create(new),
        (TouchKind::Upsert, _, Some(new)) if status == StatusCode::CREATED.as_u16() => model::create(new),
        (TouchKind::Upsert | TouchKind::Replace, Some(old), Some(new)) => model::replace(old, new),
        // A document that appeared or went in between.
        (_, None, Some(new)) => model::create(new),
        (_, _, None) => model::failed_write(),
    }
}

fn price_of_failure(status: u16) -> f64 {
    match status {
        404 | 409 | 412 => model::failed_write(),
        _ => 0.0,
    }
}

fn set(reply: &mut Reply, price: f64) {
    let text = format!("{price:.2}");
    let value = HeaderValue::from_str(&text).expect("digits and a point make a header value");
    reply.headers.insert(REQUEST_CHARGE, value);
}
