//! Dead letters: list, one, redrive, discard.

use super::{Answer, ok};
use crate::api::Api;
use crate::path::{Segment, Verbed};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{DeadLetter, DeadLetterList, Discarded, ProblemType, Redriven};
use crate::view;
use axum::extract::{RawQuery, State};
use duroxide_cosmos as store;
use duroxide_cosmos::{DeadLetterCursor, DeadLetterFilter, DeadLetterId};

/// Dead letters on one page: the default, and the most.
const LISTED: usize = 20;
const MOST_LISTED: usize = 200;
/// How the id of every dead letter begins.
const PREFIX: &str = "dead:";

/// Dead letters, the newest first.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "dead letters", operation_id = "listDeadLetters",
    params(
        ("kind" = Option<String>, Query, description = "Only `undeliverable`, `no-instance`, `poison-turn` or `poison-activity`"),
        ("instance" = Option<String>, Query, description = "Only of this instance"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before, with the same filters"),
        ("limit" = Option<u64>, Query, description = "The most dead letters; 20 by default", minimum = 1, maximum = 200),
    ),
    responses((status = 200, description = "A page", body = DeadLetterList)))]
pub(crate) async fn list(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query.as_deref(), &["kind", "instance", "cursor", "limit"])?;
    let limit = query.limit(LISTED, MOST_LISTED)?;
    let cursor = query
        .text("cursor")
        .map(|cursor| DeadLetterCursor::try_from(cursor.to_owned()));
    let cursor = cursor
        .transpose()
        .map_err(|why| Refusal::invalid(format!("the parameter cursor cannot be used: {why}")))?;
    let kind = query.text("kind").map(|name| {
        let found = view::KINDS.into_iter().find(|kind| view::kind(*kind) == name);
        found.ok_or_else(|| {
            let names = view::KINDS.map(view::kind).join(", ");
            Refusal::invalid(format!("the parameter kind is one of {names}"))
        })
    });
    let filter = DeadLetterFilter {
        kind: kind.transpose()?,
        instance: query.text("instance").map(str::to_owned),
    };
    if filter
        .instance
        .as_ref()
        .is_some_and(|instance| super::check_known(instance).is_err())
    {
        return ok(&DeadLetterList::default());
    }
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let page = api.store().dead_letters_like(&filter, limit, cursor.as_ref()).await?;
    ok(&DeadLetterList {
        dead_letters: page.dead_letters.into_iter().map(view::dead_letter).collect(),
        next_cursor: page.next.map(String::from),
    })
}

/// One dead letter, with the work items that were given up.
#[utoipa::path(get, path = "/v1/dead-letters/{instance}/{letter}", tag = "dead letters", operation_id = "getDeadLetter",
    params(
        ("instance" = String, Path, description = "The instance that it belongs to"),
        ("letter" = String, Path, description = "Its id"),
    ),
    responses(
        (status = 200, description = "The dead letter", body = DeadLetter),
        (status = 404, description = "There is no such dead letter"),
    ))]
pub(crate) async fn get(
    State(api): State<Api>,
    Segment(instance): Segment<2>,
    Segment(letter): Segment<3>,
    RawQuery(query): RawQuery,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let id = named(instance, letter)?;
    let found = api.store().dead_letter(&id).await?.ok_or_else(|| gone(&id))?;
    let items = found.items.iter().map(|item| serde_json::from_str(item.get()));
    let items = items.collect::<Result<_, _>>().map_err(|error| {
        tracing::error!(%error, "a dead letter cannot be read");
        Refusal::internal()
    })?;
    ok(&DeadLetter {
        summary: view::dead_letter(found.summary),
        items,
        omitted: found.omitted,
    })
}

/// A POST to a dead letter, with a verb.
pub(crate) async fn verb(
    State(api): State<Api>,
    Segment(instance): Segment<2>,
    Verbed { id, verb }: Verbed<3>,
    RawQuery(query): RawQuery,
) -> Answer {
    match verb.as_str() {
        "redrive" => {
            Query::read(query.as_deref(), &[])?;
            redrive(&api, named(instance, id)?).await
        }
        _ => Err(Refusal::new(
            ProblemType::NoSuchRoute,
            "the verb of a dead letter is redrive",
        )),
    }
}

/// Runs what was given up again, once, and removes the dead letter.
#[utoipa::path(post, path = "/v1/dead-letters/{instance}/{letter}:redrive", tag = "dead letters", operation_id = "redriveDeadLetter",
    params(
        ("instance" = String, Path, description = "The instance that it belongs to"),
        ("letter" = String, Path, description = "Its id"),
    ),
    responses(
        (status = 200, description = "It runs again", body = Redriven),
        (status = 404, description = "There is no such dead letter"),
        (status = 409, description = "It cannot run again; the dead letter stays"),
    ))]
pub(crate) async fn redrive(api: &Api, id: DeadLetterId) -> Answer {
    let redriven = api
        .store()
        .redrive(&id)
        .await
        .map_err(|error| match error.is_retryable() {
            true => Refusal::from(error),
            // Such as: its orchestration is not known any more. The text is for operators.
            false => Refusal::new(ProblemType::WrongState, error.message),
        })?;
    let (target, delivered) = match redriven {
        store::Redriven::Delivered { instance } => {
            // Maintenance makes up for a wakeup that was not sent.
            drop(api.connection().notify(&instance).await);
            (instance, true)
        }
        store::Redriven::Undelivered { instance } => (instance, false),
        store::Redriven::Gone => return Err(gone(&id)),
    };
    ok(&Redriven { target, delivered })
}

/// Removes a dead letter for good.
#[utoipa::path(delete, path = "/v1/dead-letters/{instance}/{letter}", tag = "dead letters", operation_id = "discardDeadLetter",
    params(
        ("instance" = String, Path, description = "The instance that it belongs to"),
        ("letter" = String, Path, description = "Its id"),
    ),
    responses(
        (status = 200, description = "It is gone", body = Discarded),
        (status = 404, description = "There is no such dead letter"),
    ))]
pub(crate) async fn discard(
    State(api): State<Api>,
    Segment(instance): Segment<2>,
    Segment(letter): Segment<3>,
    RawQuery(query): RawQuery,
) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let id = named(instance, letter)?;
    match api.store().discard(&id).await? {
        true => ok(&Discarded { discarded: true }),
        false => Err(gone(&id)),
    }
}

/// The dead letter of this id. Another document's id is that of no dead letter, and the service would refuse other texts.
fn named(instance: String, id: String) -> Result<DeadLetterId, Refusal> {
    const MOST_ID: usize = 1_023;
    let dead_letter = DeadLetterId { instance, id };
    let is_text = |text: &str| !text.chars().any(|c| c.is_control() || "/\\?#".contains(c));
    let can_exist = dead_letter.id.starts_with(PREFIX) && dead_letter.id.len() <= MOST_ID && is_text(&dead_letter.id);
    match can_exist && super::check_known(&dead_letter.instance).is_ok() {
        true => Ok(dead_letter),
        false => Err(gone(&dead_letter)),
    }
}

fn gone(id: &DeadLetterId) -> Refusal {
    let detail = format!(
        "instance '{}' has no dead letter '{}': it was redriven, was discarded, has expired or never existed",
        id.instance, id.id
    );
    Refusal::new(ProblemType::NotFound, detail)
}
