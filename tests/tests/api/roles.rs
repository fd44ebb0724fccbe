//! Who may do what: each route with each role, and nothing read for those who may not.

use duroxide_lambda::config::ApiRole;
use duroxide_lambda_api::routes::ROUTES;
use duroxide_lambda_api::types::ProblemType;
use http::{Method, StatusCode};
use serde_json::json;
use tests::api::*;

const ROLES: [ApiRole; 3] = [ApiRole::Reader, ApiRole::Client, ApiRole::Operator];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_needs_its_role_and_nothing_is_read_without_it() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    let mut refused = 0;
    for route in ROUTES {
        let path = site.path_of(route).await;
        let sent = || {
            request(
                route.method.as_str(),
                &path,
                (route.method == Method::POST).then(|| json!({})),
            )
        };
        site.listener.reset();
        let unsigned = site.send(sent()).await;
        let stranger = site.send(signed_by(sent(), "arn:test:stranger")).await;
        match route.role {
            None => {
                assert_eq!(
                    (unsigned.status, stranger.status),
                    (StatusCode::OK, StatusCode::OK),
                    "{route:?}"
                );
                assert_eq!(site.listener.counts().requests, 0, "{route:?}");
            }
            Some(_) => {
                unsigned.is_problem(ProblemType::Unauthenticated);
                stranger.is_problem(ProblemType::Forbidden);
            }
        }
        for role in ROLES {
            site.listener.reset();
            let reply = site.send(signed_by(sent(), &format!("arn:test:{role}"))).await;
            if route.role.is_none_or(|needed| role >= needed) {
                assert!(
                    ![401, 403].contains(&reply.status.as_u16()),
                    "{role} {route:?}: {}",
                    reply.text()
                );
            } else {
                reply.is_problem(ProblemType::Forbidden);
                assert_eq!(site.listener.counts().requests, 0, "{role} {route:?}");
                refused += 1;
            }
        }
    }
    assert!(refused >= 19, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_body_of_a_request_that_is_refused_is_not_read() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    let mut large = request("POST", "/v1/orchestrations/Echo/instances", None);
    *large.body_mut() = "x".repeat(3 * 1024 * 1024).into();
    site.send(large).await.is_problem(ProblemType::Unauthenticated);
    let mut large = request("POST", "/v1/orchestrations/Echo/instances", None);
    *large.body_mut() = "x".repeat(3 * 1024 * 1024).into();
    site.send(signed_by(large, "arn:test:reader"))
        .await
        .is_problem(ProblemType::Forbidden);
    assert_eq!(site.listener.counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_that_do_not_exist_are_shown_only_to_those_who_are_known() {
    let site = Site::with(Options {
        auth: iam(),
        ..Options::default()
    })
    .await;
    for (method, path) in [("GET", "/v1/nothing"), ("PUT", "/v1/counts"), ("GET", "/v1")] {
        site.send(request(method, path, None))
            .await
            .is_problem(ProblemType::Unauthenticated);
        let known = site
            .send(signed_by(request(method, path, None), "arn:test:reader"))
            .await;
        assert!([404, 405].contains(&known.status.as_u16()), "{}", known.text());
    }
}
