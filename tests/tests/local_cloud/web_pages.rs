//! A web page in a browser on this machine cannot use the local cloud, on none of its ports.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use local_cloud::{Cloud, CloudOptions};
use reqwest::{Client, Method, Url};

/// What a page of another site, or of a name that was rebound to 127.0.0.1, cannot avoid to send.
const FOREIGN: [(&str, &str); 7] = [
    ("host", "evil.example"),
    ("host", "evil.example:9400"),
    ("host", "127.0.0.1:1"),
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "same-site"),
];

/// The address of the Runtime API that a process was given.
fn runtime_api_of(pid: u32) -> Result<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ"))?;
    let mut variables = environment.split(|byte| *byte == 0);
    let address = variables.find_map(|line| line.strip_prefix(b"AWS_LAMBDA_RUNTIME_API=".as_slice()));
    Ok(String::from_utf8(address.context("a Runtime API")?.to_vec())?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_port_serves_a_foreign_web_page() -> Result<()> {
    let cloud = Cloud::start(CloudOptions::of(fake_functions())).await?;
    let aws = cloud.endpoint();
    let worker = cloud.status().functions["worker"].environments[0].pid;
    let runtime_api = runtime_api_of(worker)?;
    let cosmos = cloud.listener().context("an embedded store")?.endpoint();
    let targets = [
        (Method::GET, format!("{aws}/cloud/variables"), 200),
        (
            Method::POST,
            format!("{aws}/2015-03-31/functions/worker/invocations"),
            200,
        ),
        (Method::GET, format!("{cosmos}/dbs"), 400),
        (Method::GET, cloud.api().context("a function URL")?, 200),
        (
            Method::POST,
            format!("http://{runtime_api}/2018-06-01/runtime/init/error"),
            202,
        ),
    ];
    let http = Client::builder().no_proxy().build()?;
    for (method, url, own) in targets {
        let ask = |method: &Method| {
            let request = http.request(method.clone(), &url).header("authorization", SIGNED);
            request.header("content-type", "text/plain").body("{}")
        };
        for (name, value) in FOREIGN {
            for method in [&method, &Method::OPTIONS] {
                let answer = ask(method).header(name, value).send().await?;
                ensure!(
                    answer.status() == 403,
                    "{method} {url} {name} {value}: {}",
                    answer.status()
                );
                let said = String::from_utf8(answer.bytes().await?.to_vec())?;
                ensure!(said.starts_with("refused: it"), "{said}");
            }
        }
        let answer = ask(&method).send().await?;
        ensure!(answer.status() == own, "{url}: {}", answer.status());
        // A page of this server itself, by either name.
        let port = Url::parse(&url)?.port().context("a port")?;
        let page = ask(&method).header("host", format!("localhost:{port}"));
        let page = page.header("origin", format!("http://localhost:{port}"));
        let answer = page.header("sec-fetch-site", "same-origin").send().await?;
        ensure!(answer.status() == own, "{url}: {}", answer.status());
    }
    let counts = cloud.status().functions["worker"].counts;
    ensure!(counts.invocations == 2, "only our own were served: {counts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invoke_needs_a_signed_request() -> Result<()> {
    let cloud = Cloud::start(CloudOptions::of(fake_functions())).await?;
    let url = format!("{}/2015-03-31/functions/worker/invocations", cloud.endpoint());
    let http = Client::builder().no_proxy().build()?;
    for unsigned in [None, Some("Basic bG9jYWw6bG9jYWw=")] {
        let request = http.post(&url).body(r#"{"passes":["retention"]}"#);
        let request = unsigned
            .iter()
            .fold(request, |request, value| request.header("authorization", *value));
        let answer = request.send().await?;
        ensure!(answer.status() == 403, "{}", answer.status());
        let kind = answer
            .headers()
            .get("x-amzn-errortype")
            .context("the type of the error")?;
        ensure!(kind == "MissingAuthenticationTokenException", "{kind:?}");
    }
    ensure!(cloud.status().functions["worker"].counts.invocations == 0);
    let answer = http
        .post(&url)
        .header("authorization", SIGNED)
        .body("{}")
        .send()
        .await?;
    ensure!(answer.status() == 200, "{}", answer.status());
    Ok(())
}
