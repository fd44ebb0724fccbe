//! Why an instance is where it is.

use super::{Answer, check_known, ok};
use crate::api::Api;
use crate::path::Segment;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::Explanation;
use crate::view;
use axum::extract::{RawQuery, State};

/// Why an instance is where it is: what it waits for, since when, until when, what holds it back, and what to do.
///
/// It changes nothing. `chain` leads through children to the instance that is the true cause.
#[utoipa::path(get, path = "/v1/instances/{id}/explain", tag = "instances", operation_id = "explainInstance",
    params(("id" = String, Path, description = "The instance")),
    responses(
        (status = 200, description = "The explanation", body = Explanation),
        (status = 404, description = "There is no such instance"),
    ))]
pub(crate) async fn explain(State(api): State<Api>, Segment(id): Segment<2>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    check_known(&id)?;
    let explained = api.connection().explain(&id, &api.parts.maintenance).await?;
    let explained = explained.ok_or_else(|| Refusal::no_instance(&id))?;
    ok(&view::explanation(&explained))
}
