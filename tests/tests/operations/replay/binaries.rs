//! Binaries that crash, hang, or are no orchestrator.

use super::site::*;
use anyhow::{Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tests::replay::FIRST;

/// Two orders, which a bad build cannot go on with, between two histories that it can.
async fn orders(name: &str) -> Result<PathBuf> {
    let site = Site::start().await?;
    site.ran("b-order", "Order", "tea").await?;
    site.ran("c-order", "Order", "tea").await?;
    let folder = site.saved(name).await?;
    write(&folder, "a.1.json", &steps("a", 2))?;
    write(&folder, "d.1.json", &steps("d", 2))?;
    Ok(folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_or_a_hang_is_reported_with_its_instance_and_the_gate_goes_on() -> Result<()> {
    let folder = orders("crashes").await?;
    // Only what hangs may be short of time: the machine may be busy.
    for (build, time, cause, reason) in [
        ("aborts", "60", "crash", "SIGABRT"),
        ("exits", "60", "crash", "exit status: 3); it wrote: no licence"),
        ("loops", "6", "timeout", "does not end its turn within 6 s"),
    ] {
        let ran = replay(&folder, build, &["--json", "--timeout", time]).await?;
        let report = ran.json()?;
        ensure!(
            ran.code == 1 && report["replayed"] == 4 && report["ok"] == 2 && report["wouldBlock"] == 2,
            "{build}: {report:#}"
        );
        for (index, instance) in [(0, "b-order"), (1, "c-order")] {
            let fault = &report["faults"][index];
            ensure!(
                fault["instance"] == instance && fault["cause"] == cause,
                "{build}: {report:#}"
            );
            ensure!(fault["reason"].to_string().contains(reason), "{build}: {report:#}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_orchestrator_cannot_run() -> Result<()> {
    let folder = fresh_folder("no-orchestrator")?;
    write(&folder, "a.1.json", &steps("a", 2))?;
    let script = |name: &str, text: &str| -> Result<PathBuf> {
        let path = folder.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    };
    let not_executable = folder.join("not-executable");
    fs::write(&not_executable, "text")?;
    // One of several functions in one binary, without the variable that chooses the orchestrator.
    let maintenance = PathBuf::from(env!("CARGO_BIN_EXE_builds_function"));
    for (binary, why) in [
        (script("ends", "#!/bin/sh\nexit 0\n")?, "it ended (exit status: 0)"),
        (
            script("complains", "#!/bin/sh\necho no way >&2\nexit 7\n")?,
            "it wrote: no way",
        ),
        (
            script("echoes", "#!/bin/sh\nexec cat\n")?,
            "it did not answer within 1 s",
        ),
        (
            script("hangs", "#!/bin/sh\nexec sleep 1000\n")?,
            "it did not answer within 1 s",
        ),
        (
            script("guesses", "#!/bin/sh\necho \"$DUROXIDE_REPLAY nonsense\"\nexec cat\n")?,
            "its answer cannot be read",
        ),
        (not_executable, "cannot be started"),
        (folder.join("missing"), "cannot be used"),
        (maintenance, "COSMOS_ENDPOINT"),
    ] {
        let time = if why.contains("within 1 s") { "1" } else { "60" };
        let arguments = [
            "replay",
            "--orchestrator",
            text(&binary),
            "--from",
            text(&folder),
            "--timeout",
            time,
        ];
        let ran = run(&arguments).await?;
        ensure!(ran.code == 6 && ran.out.is_empty(), "{}: {ran:?}", binary.display());
        ensure!(ran.err.contains(why), "{}: {ran:?}", binary.display());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binary_of_several_functions_is_told_which() -> Result<()> {
    let folder = fresh_folder("several")?;
    write(&folder, "a.1.json", &steps("a", 2))?;
    let binary = env!("CARGO_BIN_EXE_builds_function");
    let ran = run(&[
        "replay",
        "--orchestrator",
        binary,
        "--from",
        text(&folder),
        "--env",
        "AWS_LAMBDA_FUNCTION_NAME=orchestrator",
        "--json",
    ])
    .await?;
    let report = ran.json()?;
    ensure!(
        ran.code == 1 && report["faults"][0]["cause"] == "unknown-name",
        "{report:#}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_api_the_check_could_not_be_made() -> Result<()> {
    let (closed, _kept) = tests::refused_address();
    let ran = run(&[
        "replay",
        "--orchestrator",
        FUNCTION,
        "--url",
        &format!("http://{closed}"),
    ])
    .await?;
    ensure!(ran.code == 6 && !ran.err.is_empty(), "{ran:?}");
    let site = Site::start().await?;
    let ran = site.replay(FIRST, &[]).await?;
    ensure!(
        ran.code == 0 && ran.out == "0 histories: 0 ok\n",
        "nothing is in flight: {ran:?}"
    );
    for wrong in [
        &["replay"][..],
        &["replay", "--orchestrator", "x", "--from", "y", "--name", "z"],
        &["history"],
        &["history", "a", "--save", "y", "--name", "z"],
        &["history", "--execution", "2", "--save", "y"],
    ] {
        let ran = run(wrong).await?;
        ensure!(ran.code == 2, "{wrong:?}: {ran:?}");
    }
    ensure!(!Path::new("y").exists());
    Ok(())
}
