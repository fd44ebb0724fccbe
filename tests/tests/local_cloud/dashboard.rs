//! The dashboard, served by the real function through the function URL: compressed bytes travel in base64.

use crate::support::*;
use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;
use reqwest::{Client, Method};
use std::io::Read as _;
use tests::real::Process;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_gets_the_files_compressed_and_others_as_they_are() -> Result<()> {
    let up = Up::start(&Binaries::built().await?, &[]).await?;
    let http = Client::builder().no_proxy().build()?;
    // What a browser sends that was given the address.
    let browser = [
        ("sec-fetch-site", "none"),
        ("accept-encoding", "gzip, deflate, br, zstd"),
    ];
    let ask = |method: Method, path: &str, headers: &[(&str, &str)]| {
        let request = http.request(method, format!("{}/{path}", up.api));
        headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let page = ask(Method::GET, "", &[]).send().await?;
    ensure!(
        page.status() == 200 && page.headers().get("content-encoding").is_none(),
        "{page:?}"
    );
    let page = page.text().await?;
    let script = page
        .split('"')
        .find(|part| part.ends_with("/main.js"))
        .context("a script")?;
    for path in ["", script] {
        let plain = ask(Method::GET, path, &[]).send().await?;
        let plain = plain.text().await?;
        let answer = ask(Method::GET, path, &browser).send().await?;
        ensure!(answer.headers()["content-encoding"] == "gzip", "{path}: {answer:?}");
        let etag = answer.headers()["etag"].to_str()?.to_owned();
        let mut text = String::new();
        GzDecoder::new(&answer.bytes().await?[..]).read_to_string(&mut text)?;
        ensure!(text == plain, "{path}");
        let again = ask(Method::GET, path, &browser)
            .header("if-none-match", &etag)
            .send()
            .await?;
        ensure!(again.status() == 304, "{path}: {again:?}");
        let head = ask(Method::HEAD, path, &browser).send().await?;
        ensure!(
            head.status() == 200 && head.headers()["etag"] == etag.as_str(),
            "{path}: {head:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_that_is_kept_shows_its_orders_in_the_dashboard() -> Result<()> {
    let binaries = Binaries::built().await?;
    let log = fresh_directory("demo-kept")?.join("functions.log");
    let mut command =
        binaries.with_functions(&["demo", "--keep", "--orders", "2", "--kills", "0", "--lose-wakeups", "0"]);
    command.arg("--log").arg(&log);
    let mut demo = Process::spawn("demo --keep", &mut command)?;
    let early = demo
        .wait_for(PATIENCE, |line| {
            Some(line.split_once("Dashboard: ")?.1.trim().to_owned())
        })
        .await?;
    let address = demo
        .wait_for(PATIENCE, |line| {
            Some(line.trim().strip_prefix("Dashboard       ")?.trim().to_owned())
        })
        .await?;
    ensure!(early == address, "{early} {address}");
    let http = Client::builder().no_proxy().build()?;
    let page = http.get(&address).send().await?;
    ensure!(page.status() == 200, "{page:?}");
    let status = async |id: &str| -> Result<String> {
        let found = http
            .get(format!("{address}v1/instances/order-{id}?wait=20"))
            .send()
            .await?;
        let found: serde_json::Value = serde_json::from_slice(&found.bytes().await?)?;
        Ok(found["status"].as_str().unwrap_or_default().to_owned())
    };
    ensure!(status("01").await? == "Completed");
    ensure!(status("broken").await? == "Failed");
    ensure!(status("harpsichord").await? == "Running", "it waits for an approval");
    Ok(())
}
