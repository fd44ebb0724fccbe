//! What a new connection costs over TLS: the first request of a client, the next ones, and one after the connection was closed.
//!
//! ```text
//!   client --> relay, which delays each direction --> TLS server (Python)
//! ```
//!
//! The certificates are made with `openssl`. The client reads its roots when it is created, so a process of its own runs it, with
//! `SSL_CERT_FILE`. Times depend on the machine and are printed; the numbers of connections are asserted.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a failure")]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cosmos::{ClientConfig, CosmosClient, Retry};
use support::create;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

const SERVER: &str = r#"
import asyncio, ssl, sys
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if length: await reader.readexactly(int(length[0].split(b":")[1]))
            writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\netag: \"1\"\r\n\r\n{}")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
        writer.close()
async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("leaf.pem", "leaf.key")
    if sys.argv[1] == "1.2": context.maximum_version = ssl.TLSVersion.TLSv1_2
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"#;

/// Runs commands of a shell in a directory.
fn shell(directory: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A TLS server, which ends with the test.
struct Tls {
    child: Child,
    port: u16,
}

impl Tls {
    fn start(directory: &Path, version: &str) -> Tls {
        let mut child = Command::new("python3")
            .args(["-c", SERVER, version])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Tls { child, port }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Forwards connections with a delay in each direction, counts them, and closes them on request.
struct Relay {
    port: u16,
    connections: Arc<AtomicUsize>,
    close: watch::Sender<()>,
}

impl Relay {
    async fn start(target: u16, delay: Duration) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (close, closed) = watch::channel(());
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut closed = closed.clone();
                closed.mark_unchanged();
                tokio::spawn(async move {
                    // The handshake of TCP is a round trip too, which the loopback device does in no time.
                    tokio::time::sleep(2 * delay).await;
                    let server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                    client.set_nodelay(true).unwrap();
                    server.set_nodelay(true).unwrap();
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    tokio::select! {
                        _ = closed.changed() => {}
                        () = delayed(from_client, to_server, delay) => {}
                        () = delayed(from_server, to_client, delay) => {}
                    }
                });
            }
        });
        Relay {
            port,
            connections,
            close,
        }
    }
}

/// Copies bytes, each of them this late.
async fn delayed(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, delay: Duration) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let due = tokio::time::Instant::now() + delay;
            if sender.send((due, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}

#[test]
#[ignore = "exhaustive: needs openssl and python3"]
fn a_connection_over_tls_is_opened_once_and_kept() {
    let directory = std::env::temp_dir().join(format!("cosmos-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    shell(
        &directory,
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-ca\n\
         openssl req -newkey rsa:2048 -nodes -keyout leaf.key -out leaf.csr -subj /CN=localhost\n\
         printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\nextendedKeyUsage=serverAuth\\n' > leaf.ext\n\
         openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile leaf.ext -out leaf.pem",
    );
    let measured = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "inner", "--nocapture"])
        .env("SSL_CERT_FILE", directory.join("ca.pem"))
        .env("COSMOS_TLS_TEST", &directory)
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&measured.stdout));
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(
        measured.status.success(),
        "{}",
        String::from_utf8_lossy(&measured.stderr)
    );
}

/// The part that runs in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: a part of the other test"]
async fn inner() {
    let Some(directory) = std::env::var_os("COSMOS_TLS_TEST") else {
        return;
    };
    println!("| TLS | round trip | HTTP client | first request | next | after a close |");
    println!("|---|---|---|---|---|---|");
    for (version, delay) in [("1.3", 0), ("1.3", 10), ("1.3", 25), ("1.2", 25)] {
        let tls = Tls::start(Path::new(&directory), version);
        let relay = Relay::start(tls.port, Duration::from_millis(delay)).await;
        let mut rows: Vec<[f64; 4]> = Vec::new();
        for _ in 0..5 {
            rows.push(once(&relay).await);
        }
        let median = |column: usize| {
            let mut all: Vec<f64> = rows.iter().map(|row| row[column]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        println!(
            "| {version} | {} ms | {:.1} ms | {:.1} ms | {:.1} ms | {:.1} ms |",
            2 * delay,
            median(0),
            median(1),
            median(2),
            median(3)
        );
    }
}

/// Milliseconds for a new client, its first request, the next one, and one after the connection was closed.
async fn once(relay: &Relay) -> [f64; 4] {
    let before = relay.connections.load(Ordering::SeqCst);
    let opened = || relay.connections.load(Ordering::SeqCst) - before;
    let config = ClientConfig::new(&format!("https://localhost:{}/", relay.port), support::key()).unwrap();
    let container = CosmosClient::new(config).container("db", "things");
    let started = Instant::now();
    container.warm().unwrap();
    let warm = started.elapsed();
    let timed = async || {
        let started = Instant::now();
        create(&container, Retry::Once).await.unwrap();
        started.elapsed()
    };
    let first = timed().await;
    assert_eq!(opened(), 1);
    let mut next = Duration::MAX;
    for _ in 0..20 {
        next = next.min(timed().await);
    }
    // A request that comes before the last connection is back in the pool opens a second one, but does not wait for it.
    let kept = opened();
    assert!(kept <= 5, "{kept} connections for 21 requests in a row");
    relay.close.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let again = timed().await;
    assert!(opened() > kept, "a new connection");
    [warm, first, next, again].map(|time| time.as_secs_f64() * 1e3)
}
