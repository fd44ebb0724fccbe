//! A small HTTP server on the loopback interface: what Lambda's Runtime API and SQS are spoken through.
//!
//! Requests are read whole before they are handled, and no larger than the services take. Dropping the server closes its
//! port and every connection, handlers in the middle included.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// More than Lambda (6 MB) and SQS (1 MB) let pass.
const LARGEST_BODY: usize = 8 * 1024 * 1024;

/// One request, read to its end.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The parts of the path between slashes.
    pub(crate) fn segments(&self) -> Vec<&str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
    }
}

/// Who answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, call: Call) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// A server; see the module.
#[derive(Debug)]
pub(crate) struct HttpServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl HttpServer {
    /// Listens on `127.0.0.1`; port 0 takes any free one.
    pub(crate) async fn bind(port: u16) -> std::io::Result<Bound> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A port that is ours, and not served yet: its address can be told to whoever is needed to serve it.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn serve(self, handler: Arc<impl Handler>) -> HttpServer {
        HttpServer {
            address: self.address,
            accepting: tokio::spawn(accept(self.listener, handler)),
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, handler: Arc<impl Handler>) {
    // The connections end with this task, because they are in its set.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&handler)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    // Out of file descriptors, most likely: trying again at once would only burn the processor.
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, handler: Arc<impl Handler>) {
    if stream.set_nodelay(true).is_err() {
        // The other side is gone already.
        return;
    }
    let serve = service_fn(|request| answer(request, Arc::clone(&handler)));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), serve);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection was closed");
    }
}

async fn answer(request: Request<Incoming>, handler: Arc<impl Handler>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let said = format!("the body cannot be read: {error}");
            return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, said));
        }
    };
    let call = Call {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
    };
    Ok(handler.handle(call).await)
}

/// An answer that is JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    with_type(status, "application/json", value.to_string())
}

/// An answer for people.
pub(crate) fn text(status: StatusCode, said: impl Into<String>) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", said.into())
}

fn with_type(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
