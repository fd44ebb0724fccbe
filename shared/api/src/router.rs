//! The router: each route of the table, behind its layers.

use crate::api::Api;
use crate::handlers::{
    batches, dashboard, dead_letters, details, doctor, explain, instances, manage, numbers, send, service, start,
};
use crate::{access, audit, headers};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

/// The HTTP API as a service.
pub fn router(api: Api) -> Router {
    let routes = Router::new()
        .route("/", get(dashboard::page))
        .route("/dashboard/{version}/{*file}", get(dashboard::file))
        .route("/v1/dashboard-config", get(dashboard::config))
        .route("/v1/me", get(service::me))
        .route("/v1/health", get(service::health))
        .route("/v1/openapi.json", get(service::openapi))
        .route("/v1/orchestrations/{name}/instances", post(start::start))
        .route("/v1/instances", get(instances::list))
        .route(
            "/v1/instances/{id}",
            get(instances::get).post(manage::verb).delete(manage::delete),
        )
        .route("/v1/instances/{id}/history", get(details::history))
        .route("/v1/instances/{id}/tree", get(details::tree))
        .route("/v1/instances/{id}/kv", get(details::key_values))
        .route("/v1/instances/{id}/executions", get(details::executions))
        .route("/v1/instances/{id}/stats", get(details::stats))
        .route("/v1/instances/{id}/explain", get(explain::explain))
        .route("/v1/instances/{id}/events/{name}", post(send::event))
        .route("/v1/instances/{id}/queues/{name}", post(send::queue))
        .route("/v1/counts", get(numbers::counts))
        .route("/v1/overview", get(numbers::overview))
        .route("/v1/throughput", get(numbers::throughput))
        .route("/v1/overdue", get(numbers::overdue))
        .route("/v1/stats", get(numbers::stats))
        .route("/v1/batches", get(batches::list).post(batches::start))
        .route("/v1/batches/{id}", get(batches::get).post(batches::verb))
        .route("/v1/batches/{id}/failures", get(batches::failures))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route(
            "/v1/dead-letters/{instance}/{letter}",
            get(dead_letters::get)
                .post(dead_letters::verb)
                .delete(dead_letters::discard),
        )
        .route("/v1/maintenance", post(numbers::maintenance))
        .route("/v1/doctor", post(doctor::examine))
        .method_not_allowed_fallback(service::no_such_method)
        .fallback(service::no_such_route);
    // The last layer is the first that a request meets.
    routes
        .layer(from_fn_with_state(api.clone(), access::allow))
        .layer(from_fn(audit::line))
        .layer(from_fn_with_state(api.clone(), headers::add))
        .with_state(api)
}
