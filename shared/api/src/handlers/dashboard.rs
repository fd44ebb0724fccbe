//! The dashboard: its page, its files, and the settings that it reads first. They are for everybody: they hold no data.

use super::{Answer, ok};
use crate::api::Api;
use crate::dashboard::{Asset, PAGE, VERSION};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::types::{DashboardConfig, ProblemType};
use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// The page must be checked each time: it names the files of one version.
const CHECKED: HeaderValue = HeaderValue::from_static("no-cache");
/// The URL of a file has its version: it never changes.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// The page. Its URL may have any query: the page itself reads it.
pub(crate) async fn page(State(api): State<Api>, headers: HeaderMap) -> Answer {
    let policy = policy(&api.parts.auth.sign_in_origins().await);
    served(&PAGE, &headers, CHECKED, policy)
}

/// A file of this version. A page of another version is loaded again.
pub(crate) async fn file(request: Request) -> Answer {
    let path = request.uri().path().strip_prefix("/dashboard/").unwrap_or_default();
    let found = path
        .split_once('/')
        .filter(|(version, _)| *version == VERSION)
        .and_then(|(_, file)| Asset::find(file));
    let asset = found.ok_or_else(|| {
        Refusal::new(
            ProblemType::NoSuchRoute,
            format!("the dashboard has version {VERSION} and no such file: load the page again"),
        )
    })?;
    served(asset, request.headers(), KEPT, policy(&[]))
}

/// What the dashboard needs to know before anybody has signed in.
#[utoipa::path(get, path = "/v1/dashboard-config", tag = "service", operation_id = "getDashboardConfig", security(()),
    responses(
        (status = 200, description = "The settings", body = DashboardConfig),
        (status = 400, description = "An unknown parameter"),
        (status = 503, description = "The configuration of the token issuer cannot be read"),
    ))]
pub(crate) async fn config(State(api): State<Api>, RawQuery(query): RawQuery) -> Answer {
    Query::read(query.as_deref(), &[])?;
    let auth = &api.parts.auth;
    let sign_in = auth.sign_in().await.map_err(|_| {
        Refusal::new(
            ProblemType::IssuerUnavailable,
            "the configuration of the token issuer cannot be read: repeat the request",
        )
    })?;
    ok(&DashboardConfig {
        auth: auth.mode(),
        version: VERSION.to_owned(),
        sign_in,
    })
}

/// What the page may load, and from where. `origins` are those that it signs in with.
fn policy(origins: &[String]) -> String {
    let connect: String = origins.iter().map(|origin| format!(" {origin}")).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'{connect}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
}

fn served(asset: &'static Asset, asked: &HeaderMap, kept: HeaderValue, policy: String) -> Answer {
    let is_known = asked
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .any(|value| names(value, asset.etag));
    let is_compressed = takes_gzip(asked);
    let body = match (is_known, is_compressed) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(asset.gzip),
        (false, false) => Body::from(asset.plain().map_err(|error| {
            tracing::error!(%error, "a file of the dashboard cannot be decompressed");
            Refusal::internal()
        })?),
    };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(header::CACHE_CONTROL, kept);
    headers.insert(header::ETAG, HeaderValue::from_static(asset.etag));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed && !is_known {
        headers.insert(header::CONTENT_ENCODING, GZIP);
    }
    let policy = HeaderValue::try_from(policy).map_err(|_| Refusal::internal())?;
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// Whether an `If-None-Match` names this weak ETag.
fn names(value: &HeaderValue, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = value.to_str().unwrap_or_default();
    known.trim() == "*" || known.split(',').any(|tag| opaque(tag) == opaque(etag))
}

/// Whether a client takes compressed bytes: it names `gzip` or everything, and not with the weight 0.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    let weights: Vec<(String, f32)> = codings
        .map(|coding| {
            let (name, parameter) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = parameter
                .trim()
                .strip_prefix("q=")
                .and_then(|weight| weight.parse().ok());
            (name.trim().to_ascii_lowercase(), weight.unwrap_or(1.0))
        })
        .collect();
    let weight = |name: &str| weights.iter().find(|(is, _)| is == name).map(|(_, weight)| *weight);
    weight("gzip")
        .or_else(|| weight("*"))
        .is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_are_for_those_who_take_them() {
        for (accepted, expected) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("*", true),
            ("identity", false),
            ("gzip;q=0", false),
            ("*;q=1, gzip;q=0", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, accepted.parse().unwrap())]);
            assert_eq!(takes_gzip(&headers), expected, "{accepted}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn an_etag_is_recognised_in_a_list_and_in_its_strong_form() {
        let known = |value: &'static str| names(&HeaderValue::from_static(value), "W/\"a\"");
        for value in ["W/\"a\"", "\"a\"", "\"b\", W/\"a\"", "*"] {
            assert!(known(value), "{value}");
        }
        for value in ["\"b\"", "a", "", "W/\"b\""] {
            assert!(!known(value), "{value}");
        }
    }

    #[test]
    fn the_page_connects_to_the_issuer_and_to_nothing_else() {
        assert!(policy(&[]).contains("; connect-src 'self'; base-uri"));
        let origins = ["https://a.example".to_owned(), "https://b.example".to_owned()];
        let policy = policy(&origins);
        assert!(
            policy.contains("connect-src 'self' https://a.example https://b.example; base-uri"),
            "{policy}"
        );
    }
}
