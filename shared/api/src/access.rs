//! The layer that lets only those through who may: the first thing that happens to a request. Nothing is read before it.

use crate::api::{Api, Invocation};
use crate::refusal::Refusal;
use crate::routes::role_of;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Refuses a caller who is not known, or whose role does not suffice.
pub(crate) async fn allow(State(api): State<Api>, mut request: Request, next: Next) -> Response {
    let path = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let needed = path.as_deref().map(|path| role_of(request.method(), path));
    if needed == Some(Ok(None)) {
        return next.run(request).await;
    }
    let invocation = request.extensions().get::<Invocation>().cloned().unwrap_or_default();
    let caller = match api.parts.auth.caller(request.headers(), &invocation).await {
        Ok(caller) => caller,
        Err(refusal) => return refusal.into_response(),
    };
    // A path or a method that does not exist: the router says so, to those who are known.
    let may = match needed {
        Some(Ok(Some(role))) => caller.may(role),
        _ => caller.role.is_some(),
    };
    request.extensions_mut().insert(caller.clone());
    let mut response = match may {
        true => next.run(request).await,
        false => Refusal::forbidden().into_response(),
    };
    response.extensions_mut().insert(caller);
    response
}
