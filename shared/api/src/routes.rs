//! The table of all routes, with the role that each needs. The router, the roles and the OpenAPI document are tested against it.

use duroxide_lambda::config::ApiRole;
use http::Method;

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path as in the OpenAPI document, like `/v1/instances/{id}:cancel`.
    pub path: &'static str,
    /// The role that it needs; none for everybody.
    pub role: Option<ApiRole>,
}

const fn route(method: Method, path: &'static str, role: Option<ApiRole>) -> Route {
    Route { method, path, role }
}

const EVERYBODY: Option<ApiRole> = None;
const READER: Option<ApiRole> = Some(ApiRole::Reader);
const CLIENT: Option<ApiRole> = Some(ApiRole::Client);
const OPERATOR: Option<ApiRole> = Some(ApiRole::Operator);

/// All of them.
pub const ROUTES: &[Route] = &[
    route(Method::GET, "/", EVERYBODY),
    route(Method::GET, "/dashboard/{version}/{*file}", EVERYBODY),
    route(Method::GET, "/v1/dashboard-config", EVERYBODY),
    route(Method::GET, "/v1/me", READER),
    route(Method::GET, "/v1/health", EVERYBODY),
    route(Method::GET, "/v1/openapi.json", EVERYBODY),
    route(Method::POST, "/v1/orchestrations/{name}/instances", CLIENT),
    route(Method::GET, "/v1/instances", READER),
    route(Method::GET, "/v1/instances/{id}", READER),
    route(Method::DELETE, "/v1/instances/{id}", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:cancel", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:prune", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:pause", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:resume", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:restart", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:rewind", OPERATOR),
    route(Method::POST, "/v1/instances/{id}:fork", OPERATOR),
    route(Method::GET, "/v1/instances/{id}/history", READER),
    route(Method::GET, "/v1/instances/{id}/tree", READER),
    route(Method::GET, "/v1/instances/{id}/kv", READER),
    route(Method::GET, "/v1/instances/{id}/executions", READER),
    route(Method::GET, "/v1/instances/{id}/stats", READER),
    route(Method::GET, "/v1/instances/{id}/explain", READER),
    route(Method::POST, "/v1/instances/{id}/events/{name}", CLIENT),
    route(Method::POST, "/v1/instances/{id}/queues/{name}", CLIENT),
    route(Method::GET, "/v1/counts", READER),
    route(Method::GET, "/v1/overview", READER),
    route(Method::GET, "/v1/throughput", READER),
    route(Method::GET, "/v1/overdue", READER),
    route(Method::GET, "/v1/stats", READER),
    route(Method::POST, "/v1/batches", OPERATOR),
    route(Method::GET, "/v1/batches", OPERATOR),
    route(Method::GET, "/v1/batches/{id}", OPERATOR),
    route(Method::POST, "/v1/batches/{id}:cancel", OPERATOR),
    route(Method::GET, "/v1/batches/{id}/failures", OPERATOR),
    route(Method::GET, "/v1/dead-letters", OPERATOR),
    route(Method::GET, "/v1/dead-letters/{instance}/{letter}", OPERATOR),
    route(Method::POST, "/v1/dead-letters/{instance}/{letter}:redrive", OPERATOR),
    route(Method::DELETE, "/v1/dead-letters/{instance}/{letter}", OPERATOR),
    route(Method::POST, "/v1/maintenance", OPERATOR),
    route(Method::POST, "/v1/doctor", OPERATOR),
];

impl Route {
    /// The path that the router knows: without the verb.
    pub fn matched_path(&self) -> &'static str {
        self.path
            .rsplit_once("}:")
            .map_or(self.path, |(path, _)| &self.path[..path.len() + 1])
    }

    /// Whether it is a part of the dashboard, which the OpenAPI document does not describe.
    pub fn is_page(&self) -> bool {
        !self.path.starts_with("/v1/")
    }

    /// Whether it changes something.
    pub fn changes(&self) -> bool {
        self.method != Method::GET
    }
}

/// The role that a request needs. `Err` when the table has no such route: then nobody may call it.
pub(crate) fn role_of(method: &Method, matched_path: &str) -> Result<Option<ApiRole>, ()> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let found = ROUTES
        .iter()
        .find(|route| route.method == *method && route.matched_path() == matched_path);
    found.map(|route| route.role).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_of_one_path_need_the_same_role() {
        for route in ROUTES {
            assert_eq!(
                role_of(&route.method, route.matched_path()),
                Ok(route.role),
                "{route:?}"
            );
        }
        assert_eq!(role_of(&Method::HEAD, "/v1/counts"), Ok(READER));
        assert_eq!(role_of(&Method::PUT, "/v1/counts"), Err(()));
    }

    #[test]
    fn whatever_changes_something_needs_more_than_a_reader() {
        for route in ROUTES.iter().filter(|route| route.changes()) {
            assert!(route.role >= CLIENT, "{route:?}");
        }
    }
}
