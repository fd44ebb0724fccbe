//! A site on a port of this machine, whose functions run by themselves: for clients in other languages.

use crate::support::{Options, Site};
use bytes::Bytes;
use cosmos_emulator::http_server::HttpServer;
use http_body_util::{BodyExt as _, Full};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

/// Larger than what the API takes: the limit is the API's to keep.
const MOST: usize = 16 * 1024 * 1024;

pub struct Served {
    pub url: String,
    pub site: Arc<Site>,
    functions: JoinHandle<()>,
    _server: HttpServer,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.functions.abort();
    }
}

impl Served {
    pub async fn with(options: Options) -> Served {
        let site = Arc::new(Site::with(options).await);
        let port = HttpServer::bind(0).await.expect("a free port");
        let url = format!("http://{}", port.address());
        let router = site.router.clone();
        let server = port.serve(MOST, move |request: http::Request<Bytes>| {
            let router = router.clone();
            async move {
                let request = request.map(axum::body::Body::from);
                let (parts, body) = router.oneshot(request).await.expect("the router answers").into_parts();
                let body = body.collect().await.expect("the body ends").to_bytes();
                Some(http::Response::from_parts(parts, Full::new(body)))
            }
        });
        let running = Arc::clone(&site);
        let functions = tokio::spawn(async move {
            loop {
                running.cloud.drain().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Served {
            url,
            site,
            functions,
            _server: server,
        }
    }
}
