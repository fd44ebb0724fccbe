//! Examines the deployment, for `duroxide-lambda doctor`.

use super::{Answer, ok};
use crate::api::{Api, Invocation};
use crate::body::Body;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Diagnosis, DoctorRequest};
use crate::view;
use axum::Extension;
use axum::extract::{RawQuery, State};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The samples of a request that names none, and how many it may name.
const SAMPLES: u32 = 20;
const ALLOWED: RangeInclusive<u32> = 1..=200;
/// The samples end then, and the answer says how many there were.
const MOST_TIME: Duration = Duration::from_secs(10);

/// Examines the container, the permissions, the queues, the clock, and what the operations of the store cost.
///
/// It writes to partitions of its own, and deletes what it wrote. A deployment that is not sound is no error of the request: the
/// checks say so.
#[utoipa::path(post, path = "/v1/doctor", tag = "operators", operation_id = "examine",
    request_body = DoctorRequest,
    responses((status = 200, description = "What was found", body = Diagnosis)))]
pub(crate) async fn examine(
    State(api): State<Api>,
    invocation: Option<Extension<Invocation>>,
    RawQuery(query): RawQuery,
    Body(request): Body<DoctorRequest>,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let samples = request.samples.unwrap_or(SAMPLES);
    if !ALLOWED.contains(&samples) {
        let (least, most) = (ALLOWED.start(), ALLOWED.end());
        return Err(Refusal::invalid(format!("samples is a number from {least} to {most}")));
    }
    let invocation = invocation.map(|Extension(invocation)| invocation).unwrap_or_default();
    let time = invocation.time_left().min(MOST_TIME);
    let found = api.connection().diagnose(samples, &api.parts.maintenance, time).await;
    ok(&view::diagnosis(found))
}
