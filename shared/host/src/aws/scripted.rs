//! An AWS service for tests: it answers the SDK over HTTP on loopback by a script, and records the requests. A body that is not
//! JSON is a text (STS sends forms); an answer that is a text is sent as it is (STS answers XML).

use super::{retry, timeouts};
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Makes an answer, status and body, from the number of the request (from 0) and its body.
type Script = dyn Fn(usize, &Value) -> (u16, Value) + Send + Sync;

pub(crate) struct Scripted {
    pub(crate) url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Value>>,
    traces: Mutex<Vec<String>>,
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(usize, &Value) -> (u16, Value) + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (seen, script) = (Arc::new(Seen::default()), Arc::new(script));
        let served = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, script) = (Arc::clone(&served), Arc::clone(&script));
                thread::spawn(move || serve(stream.unwrap(), &seen, &*script));
            }
        });
        Scripted { url, seen }
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// The trace header of each request that had one.
    pub(crate) fn traces(&self) -> Vec<String> {
        self.seen.traces.lock().unwrap().clone()
    }

    /// The most requests in flight at once.
    pub(crate) fn peak(&self) -> usize {
        self.seen.peak.load(Ordering::SeqCst)
    }

    /// The configuration of a client of this service, with a timeout for slow machines: a request that is sent twice would
    /// be counted twice.
    pub(crate) fn sdk(&self) -> SdkConfig {
        let patient = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(60));
        sdk(&self.url).to_builder().timeout_config(patient.build()).build()
    }

    /// The same with the timeouts of a function.
    pub(crate) fn hasty_sdk(&self) -> SdkConfig {
        sdk(&self.url)
    }

    /// Runs an ignored test of this binary in a process whose environment leads to this service.
    pub(crate) fn run_child(&self, module: &str, test: &str) {
        let module = module.split_once("::").expect("a module path begins with its crate").1;
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::{test}"), "--nocapture"])
            .env(CHILD, "1")
            .env("AWS_ENDPOINT_URL", &self.url)
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test")
            // As in an invocation, deep in a chain of others.
            .env("AWS_LAMBDA_FUNCTION_NAME", "worker")
            .env(
                "_X_AMZN_TRACE_ID",
                "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=15:a87bd80c:0",
            )
            .output()
            .unwrap();
        let output_text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && output_text.contains("1 passed"),
            "{output_text}"
        );
    }
}

/// Set in the process of a child.
const CHILD: &str = "CHILD_OF_A_TEST";

/// Whether this process was started by [`Scripted::run_child`]. In any other, a child's test has nothing to do.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

pub(crate) fn sdk(url: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "test");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .retry_config(retry())
        .timeout_config(timeouts())
        .build()
}

/// The URL of a port without a listener: it is never assigned to a test.
pub(crate) fn nobody() -> String {
    "http://127.0.0.1:1".to_owned()
}

fn serve(stream: TcpStream, seen: &Seen, script: &Script) {
    let mut reader = BufReader::new(stream);
    while let Some((body, trace)) = read_request(&mut reader) {
        seen.traces.lock().unwrap().extend(trace);
        let number = {
            let mut requests = seen.requests.lock().unwrap();
            requests.push(body.clone());
            requests.len() - 1
        };
        let now = seen.now.fetch_add(1, Ordering::SeqCst) + 1;
        seen.peak.fetch_max(now, Ordering::SeqCst);
        let (status, answer) = script(number, &body);
        seen.now.fetch_sub(1, Ordering::SeqCst);
        let answer = match answer {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        // A client that gave up has closed the connection.
        if reader.get_mut().write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(Value, Option<String>)> {
    let (mut length, mut trace) = (0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if let Some(value) = line.strip_prefix("x-amzn-trace-id:") {
            trace = Some(value.trim().to_owned());
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8(body).unwrap().into());
    Some((body, trace))
}
