//! Restarting an instance.

use super::{Answer, answer};
use crate::api::Api;
use crate::audit::Concerns;
use crate::path::encoded;
use crate::refusal::Refusal;
use crate::types::{ProblemType, RestartRequest, Restarted};
use duroxide_cosmos as store;
use duroxide_cosmos::instance_id_of_key;
use http::{HeaderValue, StatusCode, header};

const MOST_ID: usize = 1024;
const MOST_VERSION: usize = 128;

/// Restarts an instance with the same input: as a new instance, or as the next execution of the same one.
///
/// As a new instance it may be in any state, and is only read. In place it must have ended; the ended execution stays among its executions.
/// With `Idempotency-Key`, a request that is repeated within a day has its effect once.
#[utoipa::path(post, path = "/v1/instances/{id}:restart", tag = "operators", operation_id = "restart",
    params(
        ("id" = String, Path, description = "The instance"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, such as a UUID", min_length = 1, max_length = 255),
    ),
    request_body = RestartRequest,
    responses(
        (status = 202, description = "It is queued", body = Restarted,
            headers(("Location" = String, description = "The path of the instance that runs"))),
        (status = 404, description = "There is no such instance"),
        (status = 409, description = "The new id is in use; or in place: it has not ended, is a child, or is being deleted"),
        (status = 422, description = "The key was used for another request"),
    ))]
pub(crate) async fn restart(api: &Api, id: &str, key: Option<&str>, request: RestartRequest) -> Answer {
    check(&request)?;
    super::check_known(id)?;
    let version = request.version.as_deref();
    let wanted = store::RestartRequest {
        instance: id,
        version,
        key,
    };
    let (instance, restarted) = if request.in_place {
        (
            id.to_owned(),
            api.connection().restart_in_place(wanted, request.alone).await?,
        )
    } else {
        let new_id = match (request.new_id, key) {
            (Some(new_id), _) => new_id,
            // The same key may restart several instances.
            (None, Some(key)) => instance_id_of_key(&format!("restart\n{id}\n{key}")),
            (None, None) => api.parts.ids.unique(),
        };
        let restarted = api.connection().restart_as_new(wanted, &new_id).await?;
        (new_id, restarted)
    };
    let (execution, repeated) = outcome(id, &instance, restarted)?;
    let body = Restarted {
        instance: instance.clone(),
        restarted_from: id.to_owned(),
        execution,
        repeated,
    };
    let mut response = answer(StatusCode::ACCEPTED, &body)?;
    let location = format!("/v1/instances/{}", encoded(&instance));
    let location = HeaderValue::try_from(location).map_err(|_| Refusal::internal())?;
    response.headers_mut().insert(header::LOCATION, location);
    response.extensions_mut().insert(Concerns(instance));
    Ok(response)
}

fn check(request: &RestartRequest) -> Result<(), Refusal> {
    let check = |what: &str, text: Option<&str>, most: usize| match (1..=most).contains(&text.unwrap_or("x").len()) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!("{what} has 1 to {most} bytes"))),
    };
    check("newId", request.new_id.as_deref(), MOST_ID)?;
    check("version", request.version.as_deref(), MOST_VERSION)?;
    match request {
        RestartRequest {
            in_place: true,
            new_id: Some(_),
            ..
        } => Err(Refusal::invalid(
            "inPlace restarts the same instance: send it without newId",
        )),
        RestartRequest {
            in_place: false,
            alone: true,
            ..
        } => Err(Refusal::invalid(
            "alone belongs to inPlace: a new instance is nobody's child",
        )),
        _ => Ok(()),
    }
}

/// The execution that begins, and whether it was so before.
fn outcome(id: &str, instance: &str, restarted: store::Restarted) -> Result<(Option<u64>, bool), Refusal> {
    let wrong_state = |why: String| Err(Refusal::new(ProblemType::WrongState, format!("instance '{id}' {why}")));
    match restarted {
        store::Restarted::Accepted { execution } => Ok((Some(execution), false)),
        store::Restarted::Repeated => Ok((None, true)),
        store::Restarted::NotFound => Err(Refusal::no_instance(id)),
        store::Restarted::NotEnded => Err(Refusal::new(
            ProblemType::StillRunning,
            format!("instance '{id}' has not ended: restart it as a new instance, or cancel it first"),
        )),
        store::Restarted::Deleting => wrong_state("is being deleted".to_owned()),
        store::Restarted::IsChild { parent } => Err(Refusal::new(
            ProblemType::IsChild,
            format!(
                "instance '{id}' is a child of '{parent}', which has gone on with its end: restart the parent, or send alone=true to \
                 run it without the parent hearing of it"
            ),
        )),
        store::Restarted::Taken => Err(Refusal::new(
            ProblemType::InstanceExists,
            format!("instance '{instance}' exists already, and was not started by this request"),
        )),
        store::Restarted::KeyReused => Err(Refusal::new(
            ProblemType::KeyReused,
            "the same Idempotency-Key came with another request before: use a new key for each request",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_another_kind_of_restart_is_refused() {
        let request = |in_place, new_id: Option<&str>, alone| RestartRequest {
            in_place,
            new_id: new_id.map(str::to_owned),
            version: None,
            alone,
        };
        assert!(check(&request(true, Some("x"), false)).is_err());
        assert!(check(&request(false, None, true)).is_err());
        assert!(check(&request(false, Some(""), false)).is_err());
        assert!(check(&request(true, None, true)).is_ok() && check(&request(false, Some("x"), false)).is_ok());
    }
}
