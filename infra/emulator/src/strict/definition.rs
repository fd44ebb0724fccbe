//! The definition of a new container, or of one that is replaced.

use hyper::Method;
use serde_json::Value;

use super::{IndexPolicy, Refusal, ids, ttl};
use crate::http::{Call, IS_QUERY};

const MIN_THROUGHPUT: u64 = 400;

pub(super) fn check(call: &Call) -> Result<(), Refusal> {
    let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    let defines = match (&call.method, segments.as_slice()) {
        (&Method::POST, ["dbs", _, "colls"]) => !call.flag(IS_QUERY),
        (&Method::PUT, ["dbs", _, "colls", _]) => true,
        _ => false,
    };
    if !defines {
        return Ok(());
    }
    let body: Value = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad_request(format!("The container's definition is not valid JSON: {error}")))?;
    ids::check_document(&body)?;
    let paths = body["partitionKey"]["paths"]
        .as_array()
        .filter(|paths| !paths.is_empty());
    let well_formed = |path: &Value| {
        path.as_str()
            .is_some_and(|path| path.len() > 1 && path.starts_with('/'))
    };
    if !paths.is_some_and(|paths| paths.iter().all(well_formed)) {
        return Err(Refusal::bad_request(
            "The partition key definition of the container is missing or invalid.",
        ));
    }
    if body.get("uniqueKeyPolicy").is_some_and(|policy| !policy.is_null()) {
        return Err(Refusal::bad_request(
            "Unique keys are not supported by this test server.",
        ));
    }
    ttl::check_default(&body)?;
    if let Some(policy) = body.get("indexingPolicy") {
        IndexPolicy::parse(policy)?;
    }
    check_throughput(call)
}

fn check_throughput(call: &Call) -> Result<(), Refusal> {
    let fixed = call.header("x-ms-offer-throughput");
    let autoscaled = call.header("x-ms-cosmos-offer-autopilot-settings");
    if fixed.is_some() && autoscaled.is_some() {
        return Err(Refusal::bad_request(
            "Manual and autoscale throughput cannot be combined.",
        ));
    }
    if let Some(fixed) = fixed {
        let throughput = fixed.parse::<u64>().unwrap_or_default();
        if throughput < MIN_THROUGHPUT || !throughput.is_multiple_of(100) {
            return Err(Refusal::bad_request(
                "The offer should have valid throughput: 400 or more, in steps of 100.",
            ));
        }
    }
    if let Some(autoscaled) = autoscaled {
        let settings: Value = serde_json::from_str(autoscaled).unwrap_or_default();
        let most = settings["maxThroughput"].as_u64().unwrap_or_default();
        if most < 1000 || !most.is_multiple_of(1000) {
            return Err(Refusal::bad_request(
                "The autoscale maximum should be 1000 or more, in steps of 1000.",
            ));
        }
    }
    Ok(())
}
