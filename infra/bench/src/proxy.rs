//! A forwarding proxy that adds a header to the peer's batches.
//!
//! `duroxide-cdb` omits `x-ms-cosmos-batch-atomic: true`, without which the emulator refuses a transactional batch. Both sides
//! connect through this proxy, so that its cost is the same for both. Besides, it names the emulator as the host, because the
//! emulator answers to no other.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

const BATCH: &str = "x-ms-cosmos-is-batch-request:";
const ATOMIC: &str = "x-ms-cosmos-batch-atomic:";
const END: &[u8] = b"\r\n\r\n";

/// A listening proxy. Dropping it closes its port.
#[derive(Debug)]
pub struct BatchProxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl BatchProxy {
    /// Listens on a free port and forwards to `target`.
    pub async fn start(target: SocketAddr) -> std::io::Result<BatchProxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    // The client notices a connection that ends early.
                    if let Err(error) = forward(client, target).await {
                        tracing::debug!(%error, "a forwarded connection ended early");
                    }
                });
            }
        });
        Ok(BatchProxy { address, accepting })
    }

    /// The URL for clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for BatchProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(client: TcpStream, target: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async { tokio::io::copy(&mut from_server, &mut to_client).await.map(|_| ()) };
    let requests = async {
        let mut buffer = Vec::with_capacity(64 * 1024);
        while let Some(length) = read_request(&mut from_client, &mut buffer).await? {
            to_server.write_all(&with_header(&buffer[..length], target)).await?;
            buffer.drain(..length);
        }
        to_server.shutdown().await
    };
    tokio::try_join!(answers, requests).map(|_| ())
}

/// Reads until the buffer begins with a whole request and returns its length; `None` at the end of the connection.
async fn read_request(from: &mut (impl AsyncReadExt + Unpin), buffer: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    loop {
        if let Some(head) = head_length(buffer) {
            let length = head + content_length(&buffer[..head])?;
            if buffer.len() >= length {
                return Ok(Some(length));
            }
        }
        if from.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn head_length(buffer: &[u8]) -> Option<usize> {
    buffer
        .windows(END.len())
        .position(|window| window == END)
        .map(|position| position + END.len())
}

fn content_length(head: &[u8]) -> std::io::Result<usize> {
    let invalid = || Error::new(ErrorKind::InvalidData, "a request without a usable length");
    let head = std::str::from_utf8(head).map_err(|_| invalid())?;
    for line in head.lines() {
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                return value.trim().parse().map_err(|_| invalid());
            }
            Some((name, _)) if name.eq_ignore_ascii_case("transfer-encoding") => return Err(invalid()),
            _ => {}
        }
    }
    Ok(0)
}

/// The request for `target`; a batch gets the header that it needs.
fn with_header(request: &[u8], target: SocketAddr) -> Vec<u8> {
    let mut changed = request.to_vec();
    let Some(head) = head_length(request) else {
        return changed;
    };
    let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
    if text.contains(BATCH) && !text.contains(ATOMIC) {
        let header = format!("{ATOMIC} true\r\n");
        let at = head - 2;
        changed.splice(at..at, header.into_bytes());
    }
    if let Some(at) = text.find("\r\nhost:").map(|at| at + 2) {
        let end = at + text[at..].find("\r\n").unwrap_or(0);
        changed.splice(at..end, format!("host: {target}").into_bytes());
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gets_the_header_that_it_lacks_and_nothing_else_changes() {
        let batch = b"POST /x HTTP/1.1\r\nX-Ms-Cosmos-Is-Batch-Request: true\r\ncontent-length: 2\r\n\r\n[]";
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        let done = String::from_utf8(with_header(batch, target)).unwrap();
        assert!(
            done.ends_with("content-length: 2\r\nx-ms-cosmos-batch-atomic: true\r\n\r\n[]"),
            "{done}"
        );
        assert_eq!(with_header(done.as_bytes(), target), done.as_bytes());
        let read = b"GET /x HTTP/1.1\r\nHost: y\r\naccept: *\r\n\r\n";
        assert_eq!(
            with_header(read, target),
            b"GET /x HTTP/1.1\r\nhost: 127.0.0.1:7\r\naccept: *\r\n\r\n"
        );
    }

    #[test]
    fn the_length_of_a_body_is_read_from_its_head() {
        assert_eq!(
            content_length(b"POST / HTTP/1.1\r\nContent-Length: 12\r\n\r\n").unwrap(),
            12
        );
        assert_eq!(content_length(b"GET / HTTP/1.1\r\n\r\n").unwrap(), 0);
        assert!(content_length(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }
}
