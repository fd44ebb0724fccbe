//! A small HTTP/1.1 server on `127.0.0.1`, for the emulator's listeners and for other servers of a local cloud.
//!
//! ```text
//!   HttpServer::bind -> BoundPort -> serve(handler) -> HttpServer (drop: port and connections are closed)
//!                           \-> switch -> Switch (off: connections are accepted only to be closed)
//! ```
//!
//! A request is read to its end before the handler sees it. A handler that returns `None` closes the connection without a reply.
//! What a web page made a browser send gets 403, on every port (`browser`).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::browser;

/// A running server. Dropping it closes its port and every connection and cancels the requests in progress.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// A port that is bound and not served yet, so that its address is known before its handler exists.
#[derive(Debug)]
pub struct BoundPort {
    socket: TcpListener,
    address: SocketAddr,
    switch: Switch,
}

/// Turns a server off while its port stays bound, as a crashed server behind a load balancer looks to its clients.
#[derive(Clone, Debug)]
pub struct Switch {
    on: Arc<watch::Sender<bool>>,
}

/// The handler wants the connection closed.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed without a reply")]
struct NoReply;

impl HttpServer {
    /// Binds a port of `127.0.0.1`; 0 takes any free one.
    ///
    /// # Errors
    /// If the port is taken or may not be used.
    pub async fn bind(port: u16) -> std::io::Result<BoundPort> {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        Ok(BoundPort {
            address: socket.local_addr()?,
            socket,
            switch: Switch {
                on: Arc::new(watch::Sender::new(true)),
            },
        })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // The socket and the connections belong to this task.
        self.accepting.abort();
    }
}

impl BoundPort {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The switch of the server to be.
    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    /// Serves requests with bodies of up to `body_limit` bytes; longer ones get 413.
    pub fn serve<H, F>(self, body_limit: usize, handler: H) -> HttpServer
    where
        H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
        F: Future<Output = Option<Response<Full<Bytes>>>> + Send + 'static,
    {
        let address = self.address;
        let accepting = tokio::spawn(accept(self.socket, self.switch, body_limit, Arc::new(handler)));
        HttpServer { address, accepting }
    }
}

impl Switch {
    /// Closes every connection, and from now on accepts connections only to close them.
    pub fn turn_off(&self) {
        self.on.send_replace(false);
    }

    /// Closes every connection that is open now. New ones are served.
    pub fn drop_connections(&self) {
        self.on.send_modify(|_| {});
    }

    /// Whether requests are served.
    pub fn is_on(&self) -> bool {
        *self.on.borrow()
    }
}

async fn accept<H, F>(socket: TcpListener, switch: Switch, body_limit: usize, handler: Arc<H>)
where
    H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    F: Future<Output = Option<Response<Full<Bytes>>>> + Send + 'static,
{
    let mut changes = switch.on.subscribe();
    // Connections in this set end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) if switch.is_on() => {
                    connections.spawn(connection(stream, body_limit, Arc::clone(&handler)));
                }
                // Dropping the stream closes it.
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    // Most likely no file descriptor is left: an immediate retry would only use the processor.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
            Ok(()) = changes.changed() => connections.abort_all(),
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection<H, F>(stream: TcpStream, body_limit: usize, handler: Arc<H>)
where
    H: Fn(Request<Bytes>) -> F + Send + Sync + 'static,
    F: Future<Output = Option<Response<Full<Bytes>>>> + Send + 'static,
{
    let port = match stream.set_nodelay(true).and_then(|()| stream.local_addr()) {
        Ok(own) => own.port(),
        Err(error) => {
            tracing::debug!(%error, "the client closed the connection at once");
            return;
        }
    };
    let serve = service_fn(|request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move {
            let (parts, body) = request.into_parts();
            match browser::refusal(&parts, port) {
                Some(reason) => Ok(refused(reason)),
                None => reply(parts, body, body_limit, &*handler).await,
            }
        }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), serve);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection was closed");
    }
}

fn refused(reason: &str) -> Response<Full<Bytes>> {
    let text = format!("refused: {reason}; this server is for programs on this machine\n");
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = StatusCode::FORBIDDEN;
    // The rest of the request is not read.
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn reply<H, F>(
    parts: Parts,
    body: Incoming,
    body_limit: usize,
    handler: &H,
) -> Result<Response<Full<Bytes>>, NoReply>
where
    H: Fn(Request<Bytes>) -> F,
    F: Future<Output = Option<Response<Full<Bytes>>>>,
{
    let body = match Limited::new(body, body_limit).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let mut response = Response::new(Full::from(format!("the body is larger than {body_limit} bytes\n")));
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            return Ok(response);
        }
        // The client is gone.
        Err(_) => return Err(NoReply),
    };
    handler(Request::from_parts(parts, body)).await.ok_or(NoReply)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn request(server: &HttpServer) -> Vec<u8> {
        let host = server.address();
        format!("POST /a HTTP/1.1\r\nhost: {host}\r\ncontent-length: 3\r\n\r\nabc").into_bytes()
    }

    async fn server(body_limit: usize) -> (HttpServer, Switch) {
        let port = HttpServer::bind(0).await.unwrap();
        let switch = port.switch();
        let server = port.serve(body_limit, |request| async move {
            (request.uri().path() == "/a").then(|| Response::new(Full::new(request.into_body())))
        });
        (server, switch)
    }

    /// Sends a request; returns the reply up to the end of its first read, empty if the connection was closed.
    async fn exchange(stream: &mut TcpStream, request: &[u8]) -> String {
        // The server may have closed the connection already: reading shows it.
        drop(stream.write_all(request).await);
        let mut buffer = vec![0; 4_096];
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut buffer)).await;
        let length = read.expect("a reply, or the end").unwrap_or_default();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test]
    async fn a_handler_sees_the_whole_request_and_may_close_the_connection() {
        let (server, _) = server(3).await;
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let reply = exchange(&mut stream, &request(&server)).await;
        assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("abc"), "{reply}");
        let other = String::from_utf8_lossy(&request(&server)).replace("/a", "/b");
        assert_eq!(exchange(&mut stream, other.as_bytes()).await, "");
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let (server, _) = server(2).await;
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let reply = exchange(&mut stream, &request(&server)).await;
        assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
    }

    #[tokio::test]
    async fn a_request_that_a_web_page_sent_is_refused_before_its_body_is_read() {
        let (server, _) = server(3).await;
        let own = format!("host: {}", server.address());
        for foreign in [
            "host: evil.example".to_owned(),
            format!("{own}\r\norigin: https://evil.example"),
            format!("{own}\r\nsec-fetch-site: cross-site"),
        ] {
            let mut stream = TcpStream::connect(server.address()).await.unwrap();
            let request = format!("POST /a HTTP/1.1\r\n{foreign}\r\ncontent-length: 3\r\n\r\n");
            let reply = exchange(&mut stream, request.as_bytes()).await;
            assert!(
                reply.starts_with("HTTP/1.1 403") && reply.contains("refused: it"),
                "{reply}"
            );
        }
    }

    #[tokio::test]
    async fn a_server_that_is_turned_off_accepts_connections_only_to_close_them() {
        let (server, switch) = server(3).await;
        let mut open = TcpStream::connect(server.address()).await.unwrap();
        assert!(!exchange(&mut open, &request(&server)).await.is_empty());
        switch.turn_off();
        assert_eq!(open.read(&mut [0; 1]).await.unwrap_or_default(), 0);
        let mut new = TcpStream::connect(server.address()).await.unwrap();
        assert_eq!(exchange(&mut new, &request(&server)).await, "");
    }

    #[tokio::test]
    async fn dropping_a_server_closes_its_port_and_its_connections() {
        let (server, _) = server(3).await;
        let address = server.address();
        let mut open = TcpStream::connect(address).await.unwrap();
        assert!(!exchange(&mut open, &request(&server)).await.is_empty());
        drop(server);
        assert_eq!(open.read(&mut [0; 1]).await.unwrap_or_default(), 0);
        // The port is free again.
        HttpServer::bind(address.port()).await.unwrap();
    }
}
