//! One cold start: spawn, the first `/next`, one invocation, the second `/next`, kill.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::binaries::Binary;
use crate::memory::{self, Resident};
use crate::runtime_api::RuntimeApi;

const NEXT: &str = "/2018-06-01/runtime/invocation/next";
const REQUEST_ID: &str = "00000000-0000-4000-8000-000000000001";
const EMPTY_BATCH: &str = r#"{"Records":[]}"#;
/// A request of a function URL, as the API gets it. The answer needs no store.
const HEALTH: &str = r#"{"version":"2.0","routeKey":"$default","rawPath":"/v1/health","rawQueryString":"","headers":{"host":"bench"},
"requestContext":{"accountId":"anonymous","apiId":"bench","domainName":"bench","domainPrefix":"bench","stage":"$default","requestId":"bench","time":"01/Jan/2026:00:00:00 +0000",
"timeEpoch":1767225600000,"http":{"method":"GET","path":"/v1/health","protocol":"HTTP/1.1","sourceIp":"127.0.0.1","userAgent":"bench"}},"isBase64Encoded":false}"#;
const TIMEOUT: Duration = Duration::from_secs(60);

/// What the functions need to start. The services behind it are closed ports, and the keys open nothing.
const ENVIRONMENT: [(&str, &str); 13] = [
    ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
    ("AWS_ENDPOINT_URL", "http://127.0.0.1:9"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
    ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
    ("AWS_REGION", "eu-central-1"),
    ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
    ("COSMOS_CONTAINER", "bench"),
    ("COSMOS_DATABASE", "bench"),
    ("COSMOS_ENDPOINT", "http://127.0.0.1:9"),
    ("COSMOS_KEY", "bm90LWEtc2VjcmV0"),
    ("ORCHESTRATOR_QUEUE_URL", "http://127.0.0.1:9/000000000000/orchestrator"),
    ("WORKER_QUEUE_URL", "http://127.0.0.1:9/000000000000/worker"),
];

/// What one cold start took.
#[derive(Debug)]
pub struct Start {
    /// From the spawn to the first `/next`.
    pub init: Duration,
    /// Processor time of all threads until then.
    pub processor: Duration,
    /// Memory at that moment.
    pub resident: Resident,
    /// From handing out the event to the response.
    pub invocation: Duration,
    /// Memory when the function asks for more.
    pub resident_after: Resident,
}

/// Starts `binary` once.
pub fn measure(binary: &Binary, env: &[(String, String)], show_output: bool) -> Result<Start> {
    let api = RuntimeApi::start()?;
    let output = || if show_output { Stdio::inherit() } else { Stdio::null() };
    let mut command = Command::new(&binary.path);
    command
        .env_clear()
        .envs(ENVIRONMENT)
        .env("AWS_LAMBDA_FUNCTION_NAME", &binary.name)
        .env("AWS_LAMBDA_RUNTIME_API", api.address())
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output());

    let spawned = Instant::now();
    let child = command.spawn().context("the binary cannot be run")?;
    let child = Killed(child);
    let next = api.expect(NEXT)?;
    let init = next.at - spawned;
    let pid = child.0.id();
    let (resident, processor) = (memory::resident(pid)?, memory::processor_time(pid)?);

    let sent = Instant::now();
    let event = if binary.name == "api" { HEALTH } else { EMPTY_BATCH };
    next.answer(&invocation_headers()?, event)?;
    let response = api.expect(&format!("/invocation/{REQUEST_ID}/response"))?;
    let invocation = response.at - sent;
    response.answer("", "")?;
    let _idle = api.expect(NEXT)?;
    let resident_after = memory::resident(pid)?;
    Ok(Start {
        init,
        processor,
        resident,
        invocation,
        resident_after,
    })
}

fn invocation_headers() -> Result<String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a function compares its deadline with the real time"
    )]
    let now = SystemTime::now();
    let deadline = (now.duration_since(UNIX_EPOCH)? + TIMEOUT).as_millis();
    Ok(format!(
        "Content-Type: application/json\r\n\
         Lambda-Runtime-Aws-Request-Id: {REQUEST_ID}\r\n\
         Lambda-Runtime-Deadline-Ms: {deadline}\r\n\
         Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:eu-central-1:000000000000:function:bench\r\n\
         Lambda-Runtime-Trace-Id: Root=1-00000000-000000000000000000000000\r\n"
    ))
}

/// A process that ends with its measurement.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // A function that ended by itself has already failed the measurement.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
