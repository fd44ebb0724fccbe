//! Connections: kept between requests, and replaced when they died while nobody looked, as in a process that Lambda had frozen.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a failure")]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cosmos::{Container, CosmosClient, Error, Observer, Retry};
use futures::future::join_all;
use support::{Recorder, create, pk};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

/// Longer than the pause after which a lost request is a sign of dead connections.
const FREEZE: Duration = Duration::from_millis(1_100);

/// What happened to the connections that were open when it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Closed by the server.
    Closed,
    /// Reset by the server.
    Reset,
    /// Still open, and nothing answers: the other end has forgotten them.
    Forgotten,
    /// Closed when the next request has arrived.
    ClosedInRequest,
}

/// Answers every request with 201, and knows its connections.
struct Server {
    endpoint: String,
    opened: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
    /// The number of connections that have this fate: those that were opened first.
    fate: watch::Sender<(usize, Option<Fate>)>,
    /// How many requests must be in progress before one is answered.
    together: watch::Sender<usize>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start() -> Server {
        let socket = TcpSocket::new_v4().unwrap();
        // So small that a large request does not fit if nobody reads it.
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(64).unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        let (opened, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (fate, fates) = watch::channel((0, None));
        let (together, waiting) = watch::channel(1);
        let (count, live, log) = (Arc::clone(&opened), Arc::clone(&open), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                live.fetch_add(1, Ordering::SeqCst);
                let connection = Connection {
                    number,
                    fates: fates.clone(),
                    waiting: waiting.clone(),
                    requests: Arc::clone(&log),
                };
                let live = Arc::clone(&live);
                tokio::spawn(async move {
                    connection.serve(stream).await;
                    live.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Server {
            endpoint,
            opened,
            open,
            requests,
            fate,
            together,
            task,
        }
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Gives all open connections this fate, and waits as long as a freeze.
    async fn freeze(&self, fate: Fate) {
        self.fate.send((self.opened(), Some(fate))).unwrap();
        tokio::time::sleep(FREEZE).await;
        if matches!(fate, Fate::Closed | Fate::Reset) {
            while self.open.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            // The client gets the time to see it, as a function does while its event is delivered.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes the client open `count` connections, all of which are idle afterwards.
    async fn fill(&self, container: &Container, count: usize) {
        self.requests.lock().unwrap().clear();
        self.together.send(count).unwrap();
        let all = join_all((0..count).map(|_| create(container, Retry::Idempotent))).await;
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        self.together.send(1).unwrap();
        assert!(self.opened() >= count);
    }

    fn client(&self, request_timeout: Duration) -> (Container, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        let observer: Arc<dyn Observer> = Arc::<Recorder>::clone(&recorder);
        let config = cosmos::ClientConfig::new(&self.endpoint, support::key()).unwrap();
        let client = CosmosClient::new(config.observer(observer).request_timeout(request_timeout));
        (client.container("db", "things"), recorder)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Connection {
    number: usize,
    fates: watch::Receiver<(usize, Option<Fate>)>,
    waiting: watch::Receiver<usize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Connection {
    fn fate(&self) -> Option<Fate> {
        let (first, fate) = *self.fates.borrow();
        fate.filter(|_| self.number < first)
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        loop {
            let mut fates = self.fates.clone();
            tokio::select! {
                biased;
                fate = dead(&mut fates, self.number) => match fate {
                    Some(Fate::Reset) => return stream.set_zero_linger().unwrap(),
                    // Keeps the connection open, and reads nothing any more.
                    Some(Fate::Forgotten) => return std::future::pending().await,
                    _ => return,
                },
                read = whole_request(&mut stream, &mut buffer) => match read {
                    None => return,
                    Some(_) if self.fate() == Some(Fate::ClosedInRequest) => return,
                    Some(request) => {
                        self.requests.lock().unwrap().push(request);
                        let (requests, waiting) = (Arc::clone(&self.requests), self.waiting.clone());
                        let all_are_here = || requests.lock().unwrap().len() >= *waiting.borrow();
                        while !all_are_here() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        let reply = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\netag: \"1\"\r\n\r\n{}";
                        if stream.write_all(reply).await.is_err() {
                            return;
                        }
                    }
                },
            }
        }
    }
}

/// Waits until the connection is dead, and returns how it died.
async fn dead(fates: &mut watch::Receiver<(usize, Option<Fate>)>, number: usize) -> Option<Fate> {
    let is_dead = |&(first, fate): &(usize, Option<Fate>)| number < first && fate != Some(Fate::ClosedInRequest);
    fates.wait_for(is_dead).await.ok().and_then(|state| state.1)
}

/// The first line of the next request, when all of it has arrived.
async fn whole_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        let head = buffer.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = head {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let whole = end + 4 + length.map_or(0, |length| length.parse().unwrap());
            if buffer.len() >= whole {
                buffer.drain(..whole);
                return Some(head.lines().next().unwrap_or_default().to_owned());
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

#[tokio::test]
async fn requests_in_a_row_share_one_connection() {
    let server = Server::start().await;
    let (container, _) = server.client(Duration::from_secs(10));
    for _ in 0..5 {
        create(&container, Retry::Once).await.unwrap();
    }
    assert_eq!(server.opened(), 1);
}

#[tokio::test]
async fn connections_that_were_closed_while_idle_are_replaced_without_a_failure() {
    for fate in [Fate::Closed, Fate::Reset] {
        let server = Server::start().await;
        let (container, recorder) = server.client(Duration::from_secs(10));
        server.fill(&container, 4).await;
        server.freeze(fate).await;
        // Nothing was sent on a dead connection: the outcome of the write is known, and one attempt is enough.
        create(&container, Retry::Once).await.unwrap();
        assert!(recorder.all().iter().all(|one| one.attempt == 1), "{fate:?}");
        assert_eq!(server.opened(), 5, "{fate:?}");
    }
}

#[tokio::test]
async fn a_request_that_a_dead_connection_loses_replaces_all_of_them() {
    for fate in [Fate::Forgotten, Fate::ClosedInRequest] {
        let server = Server::start().await;
        let (container, recorder) = server.client(Duration::from_millis(500));
        server.fill(&container, 8).await;
        server.freeze(fate).await;
        create(&container, Retry::Idempotent).await.unwrap();
        // The first attempt finds a dead connection; the second does not try the other seven.
        let attempts: Vec<u32> = recorder.all().iter().skip(8).map(|one| one.attempt).collect();
        assert_eq!(attempts, [1, 2], "{fate:?}");
        assert_eq!(server.opened(), 9, "{fate:?}");
        create(&container, Retry::Once).await.unwrap();
        assert_eq!(server.opened(), 9, "the new connection is kept");
    }
}

#[tokio::test]
async fn requests_that_lose_their_connections_together_replace_them_once() {
    let server = Server::start().await;
    let (container, recorder) = server.client(Duration::from_millis(500));
    server.fill(&container, 8).await;
    server.freeze(Fate::Forgotten).await;
    let all = join_all((0..8).map(|_| create(&container, Retry::Idempotent))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(recorder.all().iter().all(|one| one.attempt <= 2));
    assert!(server.opened() <= 16, "{}", server.opened());
}

#[tokio::test]
async fn a_write_whose_connection_dies_in_the_middle_is_ambiguous() {
    let server = Server::start().await;
    let (container, _) = server.client(Duration::from_secs(10));
    create(&container, Retry::Once).await.unwrap();
    server.freeze(Fate::ClosedInRequest).await;
    let error = create(&container, Retry::Once).await.unwrap_err();
    assert!(matches!(error, Error::Ambiguous { .. }), "{error}");
}

/// The limit of one attempt (60 s here) is for a slow answer. A connection over which no byte arrives ends long before.
#[tokio::test]
async fn a_connection_that_takes_no_bytes_is_given_up_before_the_request_times_out() {
    let server = Server::start().await;
    let (container, recorder) = server.client(Duration::from_secs(60));
    create(&container, Retry::Once).await.unwrap();
    server.freeze(Fate::Forgotten).await;
    // Larger than the buffers of both ends.
    let document = serde_json::json!({ "id": "a", "pk": "p", "payload": "x".repeat(1_900_000) });
    let partition = pk("p");
    let written = container.create(&partition, &document, Retry::Idempotent);
    // The operation itself may take 30 s.
    let written = tokio::time::timeout(Duration::from_secs(25), written).await;
    assert!(matches!(written, Ok(Ok(_))), "{written:?}");
    assert_eq!(recorder.all().len(), 3, "{:?}", recorder.all());
}
