//! HTTP servers on this machine: the real API on an emulated store, and one that records what it is sent.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use cosmos_emulator::http_server::HttpServer;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response};
use std::sync::{Arc, Mutex};
use tower::ServiceExt as _;

const LARGEST_BODY: usize = 16 << 20;

/// Serves a router.
pub async fn serve(router: Router) -> HttpServer {
    let bound = HttpServer::bind(0).await.unwrap();
    bound.serve(LARGEST_BODY, move |request| {
        let router = router.clone();
        async move {
            let response = router.oneshot(request.map(Body::from)).await.ok()?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.ok()?.to_bytes();
            Some(Response::from_parts(parts, Full::new(body)))
        }
    })
}

pub fn address_of(server: &HttpServer) -> String {
    format!("http://{}", server.address())
}

/// A server that records requests, and answers them all in the same way.
pub struct FakeApi {
    pub url: String,
    requests: Arc<Mutex<Vec<Request<Bytes>>>>,
    answers: Arc<Mutex<Vec<(u16, String)>>>,
    _server: HttpServer,
}

impl FakeApi {
    pub async fn start() -> FakeApi {
        let requests = Arc::<Mutex<Vec<Request<Bytes>>>>::default();
        let answers = Arc::<Mutex<Vec<(u16, String)>>>::default();
        let (noting, answering) = (Arc::clone(&requests), Arc::clone(&answers));
        let bound = HttpServer::bind(0).await.unwrap();
        let server = bound.serve(LARGEST_BODY, move |request| {
            noting.lock().unwrap().push(request);
            let mut answers = answering.lock().unwrap();
            let answer = match answers.len() {
                0 => (404, String::new()),
                1 => answers[0].clone(),
                _ => answers.remove(0),
            };
            let response = Response::builder().status(answer.0).header("retry-after", "0");
            let response = response.body(Full::new(Bytes::from(answer.1))).unwrap();
            async move { Some(response) }
        });
        FakeApi {
            url: address_of(&server),
            requests,
            answers,
            _server: server,
        }
    }

    /// Answers this, one after the other; the last one from then on.
    pub fn answer(&self, answers: &[(u16, &str)]) {
        let answers = answers.iter().map(|(status, body)| (*status, (*body).to_owned()));
        *self.answers.lock().unwrap() = answers.collect();
    }

    /// What it was sent since the last call.
    pub fn take(&self) -> Vec<Request<Bytes>> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}
