//! A small OpenID Connect issuer: discovery, keys, a page on which a person chooses a role, and tokens for codes (PKCE) and for refresh tokens.
//!
//! The page has a link for each way in which a sign-in can go. The token endpoint gives a token once for each code, and only for the
//! verifier whose digest the authorization had.

use aws_lc_rs::digest::{SHA256, digest};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use cosmos::{Clock as _, SystemClock};
use duroxide_lambda::config::{ApiAuth, JwtSettings};
use http::{Request, StatusCode};
use reqwest::Url;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tests::api::{Signer, Web};

const CLIENT: &str = "dashboard";

/// What the issuer keeps.
struct Desk {
    url: String,
    signer: Signer,
    /// The challenge and the choice of each code that was not redeemed.
    codes: HashMap<String, (String, String)>,
    /// How often each kind of token was given, and each request refused.
    counts: BTreeMap<String, u64>,
    issued: u64,
}

type Shared = Arc<Mutex<Desk>>;

/// See the module.
pub struct Issuer {
    pub url: String,
    _server: Web,
}

impl Issuer {
    pub async fn start() -> Issuer {
        let signer = Signer::p256("k");
        let desk = Desk {
            url: String::new(),
            signer,
            codes: HashMap::new(),
            counts: BTreeMap::new(),
            issued: 0,
        };
        let desk: Shared = Arc::new(Mutex::new(desk));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/counts", get(counts))
            .with_state(Arc::clone(&desk));
        let server = Web::start(0, router).await.expect("a free port");
        lock(&desk).url = server.url();
        Issuer {
            url: server.url(),
            _server: server,
        }
    }

    /// How the API knows callers.
    pub fn auth(&self) -> ApiAuth {
        ApiAuth::Jwt(JwtSettings {
            issuer: self.url.clone(),
            audience: "shop".to_owned(),
            jwks_url: None,
            client_id: Some(CLIENT.to_owned()),
            scope: "openid shop".to_owned(),
            role_claim: "roles".to_owned(),
            roles: BTreeMap::new(),
        })
    }
}

fn lock(desk: &Shared) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn discovery(State(desk): State<Shared>) -> Response {
    let url = lock(&desk).url.clone();
    answer(json!({
        "issuer": url, "jwks_uri": format!("{url}/keys"), "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
    }))
}

async fn keys(State(desk): State<Shared>) -> Response {
    answer(json!({ "keys": [lock(&desk).signer.jwk()] }))
}

async fn counts(State(desk): State<Shared>) -> Response {
    answer(json!(lock(&desk).counts))
}

/// The page on which a person signs in.
async fn authorize(State(desk): State<Shared>, request: Request<Body>) -> Response {
    let asked = fields(request.uri().query().unwrap_or_default());
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let fits = get("response_type") == "code" && get("client_id") == CLIENT && get("code_challenge_method") == "S256";
    if !fits || get("scope") != "openid shop" || get("state").len() < 43 || get("code_challenge").len() != 43 {
        return page(StatusCode::BAD_REQUEST, "<p>The request has a mistake.</p>");
    }
    let (back, state) = (get("redirect_uri"), get("state"));
    let mut links = String::new();
    for choice in ["reader", "client", "operator", "short", "later", "nobody"] {
        let code = {
            let mut desk = lock(&desk);
            desk.issued += 1;
            let code = format!("code-{}", desk.issued);
            desk.codes
                .insert(code.clone(), (get("code_challenge"), choice.to_owned()));
            code
        };
        links += &format!("<li><a href=\"{back}?code={code}&state={state}\">{choice}</a></li>");
        if choice == "reader" {
            links += &format!("<li><a href=\"{back}?code={code}&state=another\">wrong state</a></li>");
            links += &format!(
                "<li><a href=\"{back}?error=access_denied&error_description=no+such+person&state={state}\">refused</a></li>"
            );
        }
    }
    page(StatusCode::OK, &format!("<h1>Issuer</h1><ul>{links}</ul>"))
}

/// Tokens for a code or a refresh token.
async fn token(State(desk): State<Shared>, body: Bytes) -> Response {
    let asked = fields(&String::from_utf8_lossy(&body));
    let get = |name: &str| asked.get(name).cloned().unwrap_or_default();
    let mut desk = lock(&desk);
    let choice = match get("grant_type").as_str() {
        "authorization_code" => desk.codes.remove(&get("code")).and_then(|(challenge, choice)| {
            let verifier = get("code_verifier");
            let proven = Signer::encode(digest(&SHA256, verifier.as_bytes())) == challenge;
            (proven && verifier.len() >= 43 && get("client_id") == CLIENT).then_some(choice)
        }),
        "refresh_token" => get("refresh_token").strip_prefix("refresh-").map(str::to_owned),
        _ => None,
    };
    let kind = if choice.is_some() {
        get("grant_type")
    } else {
        "refused".to_owned()
    };
    *desk.counts.entry(kind).or_default() += 1;
    let Some(choice) = choice else {
        let mut refused = answer(json!({ "error": "invalid_grant" }));
        *refused.status_mut() = StatusCode::BAD_REQUEST;
        return refused;
    };
    let now = SystemClock.now_ms() / 1000;
    // `later` is for an API whose clock is an hour ahead.
    let (role, lasts) = match choice.as_str() {
        "short" => ("reader", 600),
        "later" => ("client", 7_200),
        role => (role, 600),
    };
    let subject = format!("{role}@example.org");
    let claims = json!({ "iss": desk.url, "aud": "shop", "sub": subject, "exp": now + lasts, "roles": [role] });
    let mut tokens = json!({ "access_token": desk.signer.token(&claims), "token_type": "Bearer", "expires_in": 600 });
    if choice == "short" {
        // Renewed before each request, because it is about to end.
        tokens["expires_in"] = json!(20);
        tokens["refresh_token"] = json!("refresh-short");
    }
    answer(tokens)
}

/// The fields of a query or a form.
fn fields(text: &str) -> HashMap<String, String> {
    let address = Url::parse(&format!("http://issuer/?{text}")).expect("an address");
    address.query_pairs().into_owned().collect()
}

/// JSON for pages of any origin.
fn answer(body: Value) -> Response {
    Response::builder()
        .header("content-type", "application/json")
        .header("access-control-allow-origin", "*")
        .body(Body::from(body.to_string()))
        .expect("a response")
}

fn page(status: StatusCode, body: &str) -> Response {
    Response::builder()
        .status(status)
        .header("content-type", "text/html; charset=utf-8")
        .body(Body::from(format!(
            "<!doctype html><html lang=\"en\"><title>Issuer</title><link rel=\"icon\" href=\"data:,\">{body}"
        )))
        .expect("a response")
}
