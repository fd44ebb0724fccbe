//! Queries: the partitions that one may address, and the clauses that it may have there.
//!
//! The clauses are taken from the emulator's query plan: a second parser would disagree with the one that runs the query. Plans
//! are cached by query text, which has parameters for values.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;

use super::index::OrderItem;
use super::scan::{self, Seek};
use super::{Known, Refusal, key};
use crate::catalog::Container;
use crate::emulator::Region;
use crate::http::{CROSS_PARTITION, Call, IS_QUERY_PLAN, MAX_ITEM_COUNT, PARTITION_KEY, RANGE_ID};

const ORDER_BY: &str = "ORDER BY";
/// A larger number of texts means generated queries, which are not worth caching.
const KEPT_PLANS: usize = 1_000;

/// The clauses of a query that matter for the checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    order: Vec<OrderItem>,
    /// The clause that makes it necessary to merge the results of several partitions.
    merges: Option<&'static str>,
}

/// The shapes of earlier queries.
#[derive(Default)]
pub(crate) struct PlanCache {
    shapes: RwLock<HashMap<String, Arc<Shape>>>,
}

#[derive(Deserialize)]
struct QueryBody {
    query: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
struct Parameter {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryPlan {
    query_info: QueryInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct QueryInfo {
    distinct_type: String,
    top: Option<Value>,
    offset: Option<Value>,
    limit: Option<Value>,
    order_by: Vec<String>,
    order_by_expressions: Vec<String>,
    group_by_expressions: Vec<String>,
    aggregates: Vec<Value>,
    group_by_alias_to_aggregate_type: HashMap<String, Value>,
}

/// Checks a query. Returns how an index serves it, if it is over several partitions.
pub(super) async fn check(known: &Known<'_>, call: &Call, container: &Container) -> Result<Option<Seek>, Refusal> {
    if !call
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("application/query+json"))
    {
        return Err(Refusal::bad_request(
            "The content type of a query must be application/query+json.",
        ));
    }
    check_page_size(call)?;
    let is_scoped = key::check_optional(call, container)?.is_some();
    let has_range = call.headers.contains_key(RANGE_ID);
    if !is_scoped && !has_range && !call.flag(CROSS_PARTITION) {
        return Err(Refusal::bad_request(format!(
            "Cross partition query is required but disabled. Please set {CROSS_PARTITION} to true, specify \
             {PARTITION_KEY}, or specify {RANGE_ID}."
        )));
    }
    let body: QueryBody = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad_request(format!("The query is not valid JSON: {error}")))?;
    if let Some(parameter) = body
        .parameters
        .iter()
        .find(|parameter| !parameter.name.starts_with('@'))
    {
        return Err(Refusal::bad_request(format!(
            "The parameter '{}' does not begin with '@'.",
            parameter.name
        )));
    }
    let shape = known.plans.shape(known, call, &body.query).await?;
    if let Some(clause) = shape.merges.filter(|_| !is_scoped && !has_range) {
        return Err(Refusal::bad_request(format!(
            "The provided cross partition query can not be directly served by the gateway: it has {clause}."
        ))
        .with_substatus(1004));
    }
    container.index.check_order(&shape.order)?;
    if is_scoped && !has_range {
        return Ok(None);
    }
    match scan::check(&container.index, &body.query, &shape.order) {
        Ok(seek) if matches!(shape.merges, None | Some(ORDER_BY)) => Ok(Some(seek)),
        Ok(seek) => Ok(Some(seek.of_aggregate())),
        Err(_) if known.allow_scans => Ok(Some(Seek::everything(&body.query))),
        Err(refusal) => Err(refusal),
    }
}

fn check_page_size(call: &Call) -> Result<(), Refusal> {
    let Some(size) = call.header(MAX_ITEM_COUNT) else {
        return Ok(());
    };
    match size.trim().parse::<i64>() {
        Ok(-1) => Ok(()),
        Ok(size) if size >= 1 => Ok(()),
        _ => Err(Refusal::bad_request(format!(
            "The value '{size}' of {MAX_ITEM_COUNT} is invalid."
        ))),
    }
}

impl PlanCache {
    async fn shape(&self, known: &Known<'_>, call: &Call, query: &str) -> Result<Arc<Shape>, Refusal> {
        let kept = self
            .shapes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(query)
            .map(Arc::clone);
        if let Some(shape) = kept {
            return Ok(shape);
        }
        let mut plan_request = call.clone();
        plan_request.set_header(IS_QUERY_PLAN, HeaderValue::from_static("True"));
        let reply = known.emulator.execute(Region::Write, &plan_request).await;
        if !reply.is_success() {
            let message = serde_json::from_slice::<Value>(&reply.body)
                .ok()
                .and_then(|body| body["message"].as_str().map(str::to_owned))
                .unwrap_or_default();
            // A query without a plan cannot be checked, so it is refused.
            return Err(Refusal::new(
                reply.status,
                format!("The query cannot be planned: {message}"),
            ));
        }
        let plan: QueryPlan = serde_json::from_slice(&reply.body)
            .map_err(|error| Refusal::bad_request(format!("The query plan could not be read: {error}")))?;
        let shape = Arc::new(shape_of(&plan.query_info)?);
        let mut shapes = self.shapes.write().unwrap_or_else(PoisonError::into_inner);
        if shapes.len() < KEPT_PLANS {
            shapes.insert(query.to_owned(), Arc::clone(&shape));
        }
        Ok(shape)
    }
}

fn shape_of(info: &QueryInfo) -> Result<Shape, Refusal> {
    let merges = if !info.order_by.is_empty() {
        Some(ORDER_BY)
    } else if info.top.is_some() {
        Some("TOP")
    } else if info.offset.is_some() || info.limit.is_some() {
        Some("OFFSET and LIMIT")
    } else if !matches!(info.distinct_type.as_str(), "" | "None") {
        Some("DISTINCT")
    } else if !info.group_by_expressions.is_empty() {
        Some("GROUP BY")
    } else if !info.aggregates.is_empty() || !info.group_by_alias_to_aggregate_type.is_empty() {
        Some("an aggregate")
    } else {
        None
    };
    let order = info
        .order_by_expressions
        .iter()
        .zip(&info.order_by)
        .map(|(expression, direction)| {
            let path = property_path(expression).ok_or_else(|| {
                Refusal::bad_request(format!(
                    "Order-by over '{expression}' is not supported: it is not a property."
                ))
            })?;
            Ok(OrderItem {
                path,
                descending: direction == "Descending",
            })
        })
        .collect::<Result<_, Refusal>>()?;
    Ok(Shape { order, merges })
}

/// The names in `c.a.b`, without the alias. The plan writes every property like this.
fn property_path(expression: &str) -> Option<Vec<String>> {
    let mut names = expression.split('.').map(str::to_owned);
    names.next()?;
    let path: Vec<String> = names.collect();
    (!path.is_empty()).then_some(path)
}
