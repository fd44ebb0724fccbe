//! Why an instance is where it is.

use super::{Answer, check_known, ok};
use crate::api::Api;
use crate::path::Segment;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{Explanation, Instance};
use crate::view;
use axum::extract::{RawQuery, State};
use futures::StreamExt as _;

/// So many instances of a list are explained at once.
const AT_ONCE: usize = 8;

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

/// Adds to each instance of a list the sentence that explains it; none to one that was deleted since the list was read.
pub(super) async fn explain_all(api: &Api, instances: &mut [Instance]) -> Result<(), Refusal> {
    let explained = instances
        .iter()
        .map(|instance| instance.instance.clone())
        .map(|id| async move {
            let explained = api.connection().explain(&id, &api.parts.maintenance).await?;
            Ok::<_, Refusal>(explained.map(|explained| explained.sentence))
        });
    let explained: Vec<_> = explained.collect();
    let sentences: Vec<_> = futures::stream::iter(explained).buffered(AT_ONCE).collect().await;
    for (instance, sentence) in instances.iter_mut().zip(sentences) {
        instance.explanation = sentence?;
    }
    Ok(())
}
