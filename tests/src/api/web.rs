//! An HTTP server on `127.0.0.1` for a router. Unlike the servers of the local cloud it also serves pages of other origins: sign-in leads
//! from one origin to another and back.

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;

/// A running server. Dropping it closes its port and every connection.
#[derive(Debug)]
pub struct Web {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Web {
    /// Serves a router on a port; 0 takes any free one.
    pub async fn start(port: u16, router: Router) -> std::io::Result<Web> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = socket.local_addr()?;
        let accepting = tokio::spawn(async move {
            // Connections in this set end with this task.
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    Ok((stream, _)) = socket.accept() => {
                        connections.spawn(serve(stream, router.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                    else => return,
                }
            }
        });
        Ok(Web { address, accepting })
    }

    /// Its address, like `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(stream: TcpStream, router: Router) {
    let service = service_fn(move |request: Request<Incoming>| router.clone().oneshot(request.map(Body::new)));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection was closed");
    }
}
