//! An OpenID Connect issuer on this machine.

use cosmos::{Clock as _, SystemClock};
use duroxide_lambda::config::{ApiAuth, JwtSettings};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// See the module.
pub struct Issuer {
    pub url: String,
    pub keys: Arc<Mutex<Vec<Value>>>,
    /// What the discovery document has besides the issuer and its keys.
    pub more: Arc<Mutex<Value>>,
    fetched: Arc<AtomicUsize>,
    discovered: Arc<AtomicUsize>,
}

impl Issuer {
    pub fn start() -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let issuer = Issuer {
            url: url.clone(),
            keys: Arc::default(),
            more: Arc::new(Mutex::new(json!({
                "authorization_endpoint": format!("{url}/authorize"),
                "token_endpoint": "https://tokens.example/token",
            }))),
            fetched: Arc::default(),
            discovered: Arc::default(),
        };
        let (keys, more) = (Arc::clone(&issuer.keys), Arc::clone(&issuer.more));
        let (fetched, discovered) = (Arc::clone(&issuer.fetched), Arc::clone(&issuer.discovered));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(&stream);
                let mut line = String::new();
                reader.read_line(&mut line).unwrap_or_default();
                let mut header = String::new();
                while reader.read_line(&mut header).unwrap_or_default() > 2 {
                    header.clear();
                }
                let body = if line.starts_with("GET /.well-known/openid-configuration ") {
                    discovered.fetch_add(1, SeqCst);
                    let mut document = more.lock().expect("no panic").clone();
                    document["issuer"] = json!(url);
                    document["jwks_uri"] = json!(format!("{url}/keys"));
                    document
                } else {
                    fetched.fetch_add(1, SeqCst);
                    json!({"keys": *keys.lock().expect("no panic")})
                };
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                // A client that is gone does not need its answer.
                (&stream).write_all((head + &body).as_bytes()).unwrap_or_default();
            }
        });
        issuer
    }

    pub fn add(&self, jwk: Value) {
        self.keys.lock().expect("no panic").push(jwk);
    }

    /// How often its keys were fetched.
    pub fn fetches(&self) -> usize {
        self.fetched.load(SeqCst)
    }

    /// How often its discovery document was fetched.
    pub fn discoveries(&self) -> usize {
        self.discovered.load(SeqCst)
    }

    pub fn auth(&self) -> ApiAuth {
        ApiAuth::Jwt(self.settings())
    }

    /// The same, with a client of the dashboard.
    pub fn auth_with_client(&self) -> ApiAuth {
        ApiAuth::Jwt(JwtSettings {
            client_id: Some("dashboard".to_owned()),
            scope: "openid shop".to_owned(),
            ..self.settings()
        })
    }

    fn settings(&self) -> JwtSettings {
        JwtSettings {
            issuer: self.url.clone(),
            audience: "shop".to_owned(),
            jwks_url: None,
            client_id: None,
            scope: "openid".to_owned(),
            role_claim: "roles".to_owned(),
            roles: BTreeMap::new(),
        }
    }

    pub fn claims(&self) -> Value {
        let now = SystemClock.now_ms() / 1000;
        json!({"iss": self.url, "aud": "shop", "sub": "ada", "exp": now + 600, "roles": ["reader"]})
    }
}
