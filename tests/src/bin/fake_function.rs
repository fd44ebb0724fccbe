//! A Lambda function for the tests of the local cloud, which shows that nothing there is made for our functions alone.
//!
//! It speaks the Runtime API over plain sockets. `BEHAVIOUR` says what it does with its invocations:
//!
//! | value | behaviour |
//! |---|---|
//! | (none) | what each event's `do` says (of a function URL, the query's): `crash`, `sleep`, `fail`, `large`, `stale`, `reply` (the event's body is the answer); else it echoes the event |
//! | `records` | notes each SQS record in the file `SEEN`; the body `bad` fails its record, `poison` the whole batch |
//! | `crash-once` | crashes in its first invocation, and never starts again: the file `NOTE` remembers |
//! | `talk` | writes 3 MB before each answer |
//! | `hang` | takes an invocation and never answers |
//! | `end-at-start`, `report-start` | ends in its start with a line on stderr; reports an error of its start |
//! | `hang-at-start` | hangs in its start, with its process id in `NOTE` |

use cosmos::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::env::var;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Result, Write as _};
use std::net::TcpStream;
use std::process::exit;
use std::thread::sleep;
use std::time::Duration;

const FOREVER: Duration = Duration::from_secs(600);

/// One invocation.
struct Invocation {
    id: String,
    deadline_ms: f64,
    event: Value,
}

type Headers = Vec<(String, String)>;

/// A request to the Runtime API: status, headers (in lower case) and body of the answer.
fn request(method: &str, path: &str, body: &[u8]) -> Result<(u16, Headers, Vec<u8>)> {
    let host = var("AWS_LAMBDA_RUNTIME_API").map_err(std::io::Error::other)?;
    let mut stream = TcpStream::connect(&host)?;
    write!(
        stream,
        "{method} /2018-06-01/runtime{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )?;
    // A server that refuses a large body may answer, and close, before it has read all of it.
    let sent = stream.write_all(body);
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    if answer.read_line(&mut line)? == 0 {
        sent?;
    }
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let mut headers = Vec::new();
    loop {
        line.clear();
        answer.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let mut body = Vec::new();
    answer.read_to_end(&mut body)?;
    Ok((status, headers, body))
}

fn post(path: &str, value: &Value) -> Result<u16> {
    Ok(request("POST", path, value.to_string().as_bytes())?.0)
}

fn next() -> Result<Invocation> {
    let (status, headers, body) = request("GET", "/invocation/next", b"")?;
    if status == 410 {
        exit(0);
    }
    let header = |name: &str| {
        let found = headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    Ok(Invocation {
        id: header("lambda-runtime-aws-request-id"),
        deadline_ms: header("lambda-runtime-deadline-ms").parse().unwrap_or(0.0),
        event: serde_json::from_slice(&body)?,
    })
}

fn main() -> Result<()> {
    let note = var("NOTE").unwrap_or_default();
    match var("BEHAVIOUR").as_deref().unwrap_or_default() {
        "end-at-start" => {
            eprintln!("no connection to the moon");
            exit(7);
        }
        "report-start" => {
            let error = json!({"errorType": "Moon.Closed", "errorMessage": "the moon is closed"});
            post("/init/error", &error)?;
            exit(1);
        }
        "hang-at-start" => {
            fs::write(note, format!("{}\n", std::process::id()))?;
            sleep(FOREVER);
        }
        "crash-once" => {
            if fs::exists(&note)? {
                exit(7);
            }
            fs::write(note, "")?;
            next()?;
            exit(3);
        }
        "hang" => {
            next()?;
            sleep(FOREVER);
        }
        "talk" => talk()?,
        "records" => records()?,
        _ => obey()?,
    }
    Ok(())
}

fn obey() -> Result<()> {
    for served in 1.. {
        let Invocation { id, deadline_ms, event } = next()?;
        let mut stale = Value::Null;
        let query = &event["queryStringParameters"];
        match event["do"].as_str().or(query["do"].as_str()).unwrap_or_default() {
            "crash" => exit(3),
            "sleep" => {
                let asked = query["seconds"].as_str().and_then(|seconds| seconds.parse().ok());
                let seconds = event["seconds"].as_f64().or(asked).unwrap_or(0.0);
                sleep(Duration::from_secs_f64(seconds));
            }
            "reply" => {
                let answer = event["body"].as_str().unwrap_or_default();
                request("POST", &format!("/invocation/{id}/response"), answer.as_bytes())?;
                continue;
            }
            "fail" => {
                let error = json!({"errorType": "Sad", "errorMessage": "it did not work"});
                post(&format!("/invocation/{id}/error"), &error)?;
                continue;
            }
            "large" => {
                request(
                    "POST",
                    &format!("/invocation/{id}/response"),
                    &vec![b'x'; 6 * 1024 * 1024 + 1],
                )?;
                continue;
            }
            "stale" => stale = json!(post("/invocation/no-such-id/response", &json!({}))?),
            _ => {}
        }
        let left = deadline_ms - SystemClock.now_ms() as f64;
        let pid = std::process::id();
        let answer = json!({"pid": pid, "served": served, "left": left, "stale": stale, "event": event});
        post(&format!("/invocation/{id}/response"), &answer)?;
    }
    Ok(())
}

fn records() -> Result<()> {
    let seen = var("SEEN").map_err(std::io::Error::other)?;
    let mut seen = OpenOptions::new().append(true).open(seen)?;
    loop {
        let Invocation { id, event, .. } = next()?;
        let records = event["Records"].as_array().cloned().unwrap_or_default();
        let (mut failed, mut poison) = (Vec::new(), false);
        for record in &records {
            let body = record["body"].as_str().unwrap_or_default();
            let receives = record["attributes"]["ApproximateReceiveCount"]
                .as_str()
                .unwrap_or_default();
            writeln!(seen, "{body} {receives} {}", records.len())?;
            poison |= body == "poison";
            if body == "bad" {
                failed.push(json!({"itemIdentifier": record["messageId"]}));
            }
        }
        let (path, answer) = match poison {
            true => ("error", json!({"errorType": "Poison", "errorMessage": "no"})),
            false => ("response", json!({"batchItemFailures": failed})),
        };
        post(&format!("/invocation/{id}/{path}"), &answer)?;
    }
}

fn talk() -> Result<()> {
    loop {
        let Invocation { id, .. } = next()?;
        for _ in 0..30_000 {
            println!("{}", "x".repeat(100));
        }
        post(&format!("/invocation/{id}/response"), &json!({}))?;
    }
}
