//! A local cloud that answers variables and accepts wakeups.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

#[derive(Clone)]
pub struct FakeCloud {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The status and body of `/cloud/variables`.
    answer: Mutex<(u16, String)>,
    wakeups: Mutex<Vec<Value>>,
}

impl FakeCloud {
    pub async fn start() -> FakeCloud {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { served.await.unwrap_or_default() });
            }
        });
        FakeCloud { url, shared }
    }

    /// Answers these variables from now on, with its own address for the queues.
    pub fn offer(&self, variables: &BTreeMap<String, String>) {
        let mut variables = variables.clone();
        variables.insert("AWS_ENDPOINT_URL".to_owned(), self.url.clone());
        self.answer(200, json!(variables).to_string());
    }

    pub fn answer(&self, status: u16, body: impl Into<String>) {
        *self.shared.answer.lock().unwrap() = (status, body.into());
    }

    /// The wakeups that it accepted.
    pub fn wakeups(&self) -> Vec<Value> {
        self.shared.wakeups.lock().unwrap().clone()
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let (status, body) = match (request.method(), path.as_str()) {
        (&Method::GET, "/cloud/variables") => shared.answer.lock().unwrap().clone(),
        (&Method::POST, _) => {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            (
                200,
                accept(&shared, &serde_json::from_slice(&body).unwrap()).to_string(),
            )
        }
        _ => (404, String::new()),
    };
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/x-amz-json-1.0");
    Ok(response.body(Full::new(Bytes::from(body))).unwrap())
}

/// Accepts every entry of a `SendMessageBatch`.
fn accept(shared: &Shared, call: &Value) -> Value {
    let mut taken = Vec::new();
    for entry in call["Entries"].as_array().unwrap() {
        let wakeup: Value = serde_json::from_str(entry["MessageBody"].as_str().unwrap()).unwrap();
        shared.wakeups.lock().unwrap().push(wakeup);
        taken.push(json!({ "Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "" }));
    }
    json!({ "Successful": taken, "Failed": [] })
}
