//! A cloud that cannot start says why and what to do, and leaves nothing running.

use crate::support::*;
use anyhow::{Result, ensure};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

const FREE: [&str; 5] = ["up", "--port", "0", "--cosmos-port", "0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_is_reported_with_the_option_that_changes_it() -> Result<()> {
    let binaries = Binaries::built().await?;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port().to_string();
    let data = fresh_directory("taken")?.join("data");
    let path = data.to_string_lossy().into_owned();
    let mut emulator = Command::new(&binaries.emulator);
    emulator.args(["--port", &port, "--data", &path]);
    for (command, option) in [
        (
            binaries.with_functions(&["up", "--port", &port, "--cosmos-port", "0", "--data", &path]),
            "--port",
        ),
        (
            binaries.with_functions(&["up", "--port", "0", "--cosmos-port", &port, "--data", &path]),
            "--cosmos-port",
        ),
        (emulator, "--port"),
    ] {
        let said = refused(command).await?;
        ensure!(!data.exists(), "nothing was written");
        ensure!(
            said.contains(&format!("port {port} is taken")) && said.contains(option),
            "{said}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unusable_binary_is_named() -> Result<()> {
    let binaries = Binaries::built().await?;
    let directory = fresh_directory("no-binary")?;
    let plain = directory.join("plain");
    std::fs::write(&plain, "no program")?;
    for (path, why) in [
        (directory.join("missing"), "No such file"),
        (plain, "not executable"),
        (directory.clone(), "not a file"),
    ] {
        let mut command = binaries.local(&FREE);
        command.arg("--worker").arg(&path);
        command.arg("--orchestrator").arg(&binaries.functions.orchestrator);
        command.arg("--maintenance").arg(&binaries.functions.maintenance);
        command.arg("--api").arg(binaries.api());
        let said = refused(command).await?;
        ensure!(
            said.contains("the function worker") && said.contains(why) && said.contains("correct the path"),
            "{said}"
        );
        ensure!(said.contains(&*path.to_string_lossy()), "{said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_ends_during_its_start_is_reported_with_its_last_lines() -> Result<()> {
    let binaries = Binaries::built().await?;
    let said = refused(binaries.with_fake("worker", "end-at-start")).await?;
    for part in [
        "the function worker does not start",
        "exit status: 7",
        "no connection to the moon",
    ] {
        ensure!(said.contains(part), "{part}: {said}");
    }
    // A real function's own words about its configuration.
    let mut command = binaries.with_functions(&FREE);
    command.args(["--env", "DUROXIDE_CONCURRENCY=none"]);
    let said = refused(command).await?;
    ensure!(
        said.contains("DUROXIDE_CONCURRENCY") && said.contains("whole number"),
        "{said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_too_short_to_begin_anything_is_refused() -> Result<()> {
    let binaries = Binaries::built().await?;
    for (timeout, reserve) in [
        ("15", "DUROXIDE_TURN_RESERVE_MS=3000"),
        ("30", "DUROXIDE_TURN_RESERVE_MS=8000"),
    ] {
        let mut command = binaries.with_functions(&FREE);
        command.args(["--timeout", timeout, "--env", reserve]);
        let said = refused(command).await?;
        ensure!(said.contains(&format!("--timeout {timeout} is too short")), "{said}");
        ensure!(said.contains("with these reserves a function needs at least"), "{said}");
    }
    let shortest = ["--timeout", "4", "--env", "DUROXIDE_TURN_RESERVE_MS=1000"];
    let smaller = [
        "--env",
        "DUROXIDE_CANCEL_GRACE_MS=500",
        "--env",
        "DUROXIDE_COMMIT_RESERVE_MS=500",
    ];
    Up::start(&binaries, &[shortest, smaller].concat()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_crashes_leaves_the_data_directory_unchanged() -> Result<()> {
    let binaries = Binaries::built().await?;
    let data = fresh_directory("kept")?;
    let path = data.to_string_lossy().into_owned();
    let up = Up::start(&binaries, &["--data", &path]).await?;
    up.place("kept", 100)?;
    up.expect_shipped("kept")?;
    let children = up.children().await?;
    drop(up);
    until_gone(&children).await?;
    let mut command = binaries.with_functions(&FREE);
    command.args(["--data", &path, "--env", "DUROXIDE_CONCURRENCY=none"]);
    refused(command).await?;
    let up = Up::start(&binaries, &["--data", &path]).await?;
    up.expect_shipped("kept")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_or_foreign_data_directory_is_refused_and_left_alone() -> Result<()> {
    let binaries = Binaries::built().await?;
    let strange = fresh_directory("strange")?;
    std::fs::write(strange.join("thesis.txt"), "years of work")?;
    let mut command = binaries.with_functions(&FREE);
    command.arg("--data").arg(&strange);
    let said = refused(command).await?;
    ensure!(said.contains(&*strange.to_string_lossy()), "{said}");
    let left: Vec<_> = std::fs::read_dir(&strange)?.collect::<Result<_, _>>()?;
    ensure!(left.len() == 1, "nothing was added: {left:?}");
    ensure!(std::fs::read_to_string(strange.join("thesis.txt"))? == "years of work");

    let newer = fresh_directory("newer")?;
    let path = newer.to_string_lossy().into_owned();
    let up = Up::start(&binaries, &["--data", &path]).await?;
    let children = up.children().await?;
    drop(up);
    until_gone(&children).await?;
    // The file's name says its format.
    let storage = newer.join("cosmos-3.redb");
    std::fs::rename(newer.join("cosmos-2.redb"), &storage)?;
    let bytes = std::fs::read(&storage)?;
    let mut command = binaries.with_functions(&FREE);
    command.args(["--data", &path]);
    let said = refused(command).await?;
    ensure!(said.contains("newer version") && said.contains(&path), "{said}");
    ensure!(std::fs::read(&storage)? == bytes, "it is left as it was");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_without_a_key_or_an_answer_is_reported() -> Result<()> {
    let binaries = Binaries::built().await?;
    // Holds a port without listening there.
    let silent = tokio::net::TcpSocket::new_v4()?;
    silent.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let nobody = format!("http://{}", silent.local_addr()?);
    let arguments = ["up", "--port", "0", "--cosmos", &nobody];
    let said = refused(binaries.with_functions(&arguments)).await?;
    ensure!(said.contains("set COSMOS_KEY"), "{said}");
    let mut command = binaries.with_functions(&arguments);
    command.env("COSMOS_KEY", "a2V5");
    let said = refused(command).await?;
    ensure!(
        said.contains(&nobody) && said.contains("database and container"),
        "{said}"
    );
    ensure!(!said.contains("a2V5"), "the key is not repeated: {said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cloud_on_another_cosmos_db_never_reveals_its_key() -> Result<()> {
    let binaries = Binaries::built().await?;
    let server = cosmos_emulator::CosmosServer::start(cosmos_emulator::ServerOptions::default()).await?;
    let mut command = binaries.with_functions(&["up", "--port", "0", "--quiet"]);
    command.args(["--cosmos", &server.listener().endpoint()]);
    command.env("COSMOS_KEY", server.listener().key());
    let mut up = Up::of(command, &binaries).await?;
    // Clients need no key: the API has it.
    up.place("elsewhere", 100)?;
    up.expect_shipped("elsewhere")?;
    let shown = |line: &str| line.contains("Ctrl-C stops it").then_some(());
    up.process.wait_for(PATIENCE, shown).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    let variables = http.get(format!("{}/cloud/variables", up.endpoint)).send().await?;
    let variables = String::from_utf8(variables.bytes().await?.to_vec())?;
    ensure!(variables.contains(&server.listener().endpoint()), "{variables}");
    for told in [
        variables,
        up.process.stdout().join("\n"),
        up.process.stderr().join("\n"),
    ] {
        ensure!(!told.contains(&server.listener().key()), "{told}");
    }
    ensure!(
        server.listener().counts().requests > 20,
        "{:?}",
        server.listener().counts()
    );
    Ok(())
}
