//! What the tests share: a scripted server for answers that no healthy service gives, and an observer that counts.
//!
//! The scripted server speaks minimal HTTP and checks nothing. The behaviour of a healthy Cosmos DB is tested against `cosmos_emulator::CosmosServer` instead.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod account;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cosmos::{
    ClientConfig, Container, CosmosClient, Error, Etag, Key, Observed, Observer, PartitionKey, Retry, StaticKey,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const KEY: &str = "c2NyaXB0ZWQta2V5LW9mLXRoZS10ZXN0cw==";

/// A request as the scripted server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What the scripted server does with a request.
#[derive(Clone, Debug)]
pub enum Act {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// Reads the request, then closes the connection without an answer.
    Drop,
    /// Promises a body and closes the connection in the middle of it.
    Truncate,
    /// Never answers.
    Hang,
}

pub fn answer(status: u16) -> Act {
    Act::Answer {
        status,
        headers: vec![("etag", "\"1\"".to_owned())],
        body: "{}".to_owned(),
    }
}

impl Act {
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Act {
        if let Act::Answer { headers, .. } = &mut self {
            headers.push((name, value.to_string()));
        }
        self
    }

    pub fn saying(mut self, text: impl ToString) -> Act {
        if let Act::Answer { body, .. } = &mut self {
            *body = text.to_string();
        }
        self
    }
}

/// Answers the n-th request, counted from 0, with `script(n, request)`.
pub struct Scripted {
    pub endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Scripted {
    pub async fn start(script: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let script = Arc::new(script);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, script) = (Arc::clone(&log), Arc::clone(&script));
                tokio::spawn(async move {
                    let act = |request: &Seen| {
                        let number = {
                            let mut log = log.lock().unwrap();
                            log.push(request.clone());
                            log.len() - 1
                        };
                        script(number, request)
                    };
                    // The client closed the connection; the test asserts on what it saw.
                    drop(converse(stream, act).await);
                });
            }
        });
        Scripted { endpoint, seen, task }
    }

    /// Answers with each act in turn, then always with the last.
    pub async fn playing(acts: Vec<Act>) -> Scripted {
        Scripted::start(move |number, _| acts[number.min(acts.len() - 1)].clone()).await
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn config(&self) -> ClientConfig {
        ClientConfig::new(&self.endpoint, key()).unwrap()
    }

    pub fn container(&self) -> Container {
        CosmosClient::new(self.config()).container("db", "things")
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(mut stream: TcpStream, act: impl Fn(&Seen) -> Act) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = receive(&mut stream, &mut buffer).await? else {
            return Ok(());
        };
        match act(&request) {
            Act::Answer { status, headers, body } => {
                let mut text = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", body.len());
                headers
                    .iter()
                    .for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
                text.push_str("\r\n");
                text.push_str(&body);
                stream.write_all(text.as_bytes()).await?;
            }
            Act::Drop => return Ok(()),
            Act::Truncate => {
                return stream
                    .write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 99\r\netag: \"1\"\r\n\r\n{")
                    .await;
            }
            Act::Hang => tokio::time::sleep(Duration::from_secs(3_600)).await,
        }
    }
}

async fn receive(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<Seen>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let mut lines = head.lines();
            let line = lines.next().unwrap_or_default().to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let whole = end + 4 + length.map_or(0, |(_, value)| value.parse().unwrap());
            if buffer.len() >= whole {
                let body = String::from_utf8_lossy(&buffer[end + 4..whole]).into_owned();
                buffer.drain(..whole);
                return Ok(Some(Seen { line, headers, body }));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

pub fn key() -> StaticKey {
    StaticKey::new(Key::from_base64(KEY).unwrap())
}

pub fn pk(value: &str) -> PartitionKey {
    PartitionKey::new(value).unwrap()
}

/// Creates document `a` in partition `p`.
pub async fn create(container: &Container, retry: Retry) -> Result<Etag, Error> {
    container
        .create(&pk("p"), &serde_json::json!({"id": "a", "pk": "p"}), retry)
        .await
}

/// Keeps every report.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<Observed>>);

impl Recorder {
    pub fn all(&self) -> Vec<Observed> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Recorder {
    fn observed(&self, request: &Observed) {
        self.0.lock().unwrap().push(request.clone());
    }
}
