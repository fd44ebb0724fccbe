//! AWS STS and Entra ID for tests, on one port of this machine: what a function without a key needs.
//!
//! STS gives an assertion for the audience of Entra ID to whoever signs a request; Entra ID takes only an assertion of this
//! STS, of the expected application and for Cosmos DB, and issues a token that the emulator accepts.

use cosmos_emulator::TokenIssuer;
use serde_json::json;
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const TENANT: &str = "tests.example";
const CLIENT: &str = "0f3b7f3e-1111-2222-3333-444444444444";

/// The two services, as long as the process lives.
pub struct Identity {
    url: String,
    state: Arc<State>,
}

struct State {
    issuer: TokenIssuer,
    lifetime: Duration,
    /// The assertions that STS gave and nobody has used.
    assertions: Mutex<HashSet<String>>,
    counts: Mutex<Counts>,
}

/// How often each was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Assertions that STS gave.
    pub assertions: usize,
    /// Tokens that Entra ID gave.
    pub tokens: usize,
    /// Requests that either refused.
    pub refused: usize,
}

impl Identity {
    /// Starts both. Tokens are said to live this long.
    pub fn start(issuer: TokenIssuer, lifetime: Duration) -> Identity {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            issuer,
            lifetime,
            assertions: Mutex::default(),
            counts: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&serving);
                // A client that is gone does not need its answer.
                thread::spawn(move || serve(&stream, &state).unwrap_or_default());
            }
        });
        Identity { url, state }
    }

    /// The variables of a function without a key.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("COSMOS_KEY", String::new()),
            ("COSMOS_TENANT_ID", TENANT.to_owned()),
            ("COSMOS_CLIENT_ID", CLIENT.to_owned()),
            ("COSMOS_AUTHORITY", self.url.clone()),
            ("AWS_ENDPOINT_URL_STS", self.url.clone()),
        ]
    }

    /// How often each was asked so far.
    pub fn counts(&self) -> Counts {
        *self
            .state
            .counts
            .lock()
            .expect("nothing panics while it holds the lock")
    }
}

fn serve(stream: &TcpStream, state: &State) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut header = String::new();
        while reader.read_line(&mut header)? > 2 {
            let (name, value) = header.trim_end().split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or_default();
            }
            header.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let (status, answer) = state.answer(&line, &String::from_utf8_lossy(&body));
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n", answer.len());
        (&mut &*stream).write_all((head + &answer).as_bytes())?;
    }
}

impl State {
    fn answer(&self, line: &str, form: &str) -> (u16, String) {
        let answer = if line.starts_with("POST / ") {
            self.sts(form)
        } else if line.starts_with(&format!("POST /{TENANT}/oauth2/v2.0/token ")) {
            self.entra(form)
        } else {
            None
        };
        let mut counts = self.counts.lock().expect("nothing panics while it holds the lock");
        match &answer {
            None => counts.refused += 1,
            Some(_) if line.starts_with("POST / ") => counts.assertions += 1,
            Some(_) => counts.tokens += 1,
        }
        answer.map_or((400, "refused by the test".to_owned()), |answer| (200, answer))
    }

    fn sts(&self, form: &str) -> Option<String> {
        let asked = [
            "Action=GetWebIdentityToken",
            "Audience.member.1=api%3A%2F%2FAzureADTokenExchange",
            "SigningAlgorithm=RS256",
        ];
        asked.iter().all(|part| form.contains(part)).then_some(())?;
        let assertion = format!("aGVhZA.{:016x}.c2ln", fastrand::u64(..));
        let mut known = self.assertions.lock().expect("nothing panics while it holds the lock");
        known.insert(assertion.clone());
        Some(format!(
            "<GetWebIdentityTokenResponse><GetWebIdentityTokenResult><WebIdentityToken>{assertion}</WebIdentityToken>\
             <Expiration>2036-01-01T00:00:00Z</Expiration></GetWebIdentityTokenResult></GetWebIdentityTokenResponse>"
        ))
    }

    fn entra(&self, form: &str) -> Option<String> {
        let asked = [
            "grant_type=client_credentials".to_owned(),
            format!("client_id={CLIENT}"),
            "scope=https%3A%2F%2Fcosmos.azure.com%2F.default".to_owned(),
        ];
        asked.iter().all(|part| form.contains(part)).then_some(())?;
        let assertion = form
            .split('&')
            .find_map(|pair| pair.strip_prefix("client_assertion="))?;
        let mut known = self.assertions.lock().expect("nothing panics while it holds the lock");
        known.remove(assertion).then_some(())?;
        // Valid for longer than it says: a request that is slow on a busy machine must not be refused.
        let token = self.issuer.issue(self.lifetime + Duration::from_secs(3600));
        Some(json!({"token_type": "Bearer", "expires_in": self.lifetime.as_secs(), "access_token": token}).to_string())
    }
}
