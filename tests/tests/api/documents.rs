//! The documentation has every route with its role, every problem with its status, and the limits that the code has.

use duroxide_cosmos::Cause;
use duroxide_lambda_api::routes::ROUTES;
use duroxide_lambda_api::types::ProblemType;
use duroxide_lambda_api::{MAX_BODY, MAX_TEXT, MAX_WAIT};

fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.md");
    std::fs::read_to_string(path).expect("the document is there")
}

#[test]
fn every_route_is_documented_with_its_role() {
    let text = text();
    for route in ROUTES {
        let role = route.role.map_or("everybody", |role| role.name());
        let row = format!("| `{} {}` | {role} |", route.method, route.path);
        assert!(text.contains(&row), "{row}");
    }
    let rows = text
        .lines()
        .filter(|line| {
            ["GET", "POST", "DELETE"]
                .iter()
                .any(|method| line.starts_with(&format!("| `{method} /")))
        })
        .count();
    assert_eq!(rows, ROUTES.len(), "no other route is documented");
}

#[test]
fn every_problem_is_documented_with_its_status() {
    let text = text();
    for kind in ProblemType::ALL {
        let row = format!("| `{kind}` | {} |", kind.status());
        assert!(text.contains(&row), "{row}");
    }
}

#[test]
fn every_cause_of_an_explanation_is_documented_with_its_meaning() {
    let text = text();
    for cause in Cause::ALL {
        let row = format!("| `{}` | {} |", cause.name(), cause.meaning());
        assert!(text.contains(&row), "{row}");
    }
}

#[test]
fn the_documented_limits_are_those_of_the_code() {
    let text = text();
    assert_eq!((MAX_BODY, MAX_TEXT, MAX_WAIT.as_secs()), (2 << 20, 1_900_000, 25));
    for row in ["| body | 2 MiB", "1,900,000 bytes as a JSON string", "| wait | 25 s |"] {
        assert!(text.contains(row), "{row}");
    }
}
