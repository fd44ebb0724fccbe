//! `duroxide-lambda dev` on a project, with the real cargo.
//!
//! The project depends on nothing: its functions are a few lines that become `versions_function`, with the version that their source names. So a
//! build takes a second, and everything else is as in a user's project.

use crate::support::*;
use anyhow::{Context as _, Result, bail, ensure};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::real::Process;

const FUNCTION: &str = env!("CARGO_BIN_EXE_versions_function");

/// The library of the functions; the test writes the module `version`.
const LIBRARY: &str = r#"
use std::os::unix::process::CommandExt as _;
use std::process::{Command, exit};
pub mod version;

pub fn become_function(name: &str, program: &str) {
    if (name, version::VERSION) == ("worker", "dead") {
        eprintln!("no connection to the moon");
        exit(7);
    }
    let mut function = Command::new(program);
    function.env("VERSION", version::VERSION).env("DUROXIDE_BUILD", version::VERSION);
    panic!("{}", function.exec());
}
"#;

/// A project in a folder of its own.
struct Project {
    root: PathBuf,
    binaries: Binaries,
}

impl Project {
    async fn of(name: &str) -> Result<Project> {
        let binaries = Binaries::built().await?;
        let root = fresh_directory(name)?;
        let file = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().context("it is in a folder")?)?;
            anyhow::Ok(std::fs::write(path, text)?)
        };
        file("duroxide-lambda.toml", "name = \"stepper\"\n[local]\nport = 0\n")?;
        file(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"functions\", \"workflows\"]\n",
        )?;
        let package = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        file("workflows/Cargo.toml", &package("workflows"))?;
        file("workflows/src/lib.rs", LIBRARY)?;
        let dependencies = "[dependencies]\nworkflows = { path = \"../workflows\" }\n";
        file("functions/Cargo.toml", &(package("functions") + dependencies))?;
        for name in ["orchestrator", "worker", "maintenance", "api"] {
            let program = match name {
                "api" => binaries.api().display().to_string(),
                _ => FUNCTION.to_owned(),
            };
            let main = format!("fn main() {{ workflows::become_function({name:?}, {program:?}) }}\n");
            file(&format!("functions/src/bin/{name}.rs"), &main)?;
        }
        Ok(Project { root, binaries })
    }

    fn source(&self) -> PathBuf {
        self.root.join("workflows/src/version.rs")
    }

    /// What the sources are.
    fn write(&self, version: &str) -> Result<()> {
        Ok(std::fs::write(self.source(), source(version))?)
    }

    fn dev(&self, arguments: &[&str]) -> Command {
        let mut command = self.binaries.local(&["dev"]);
        command.args(arguments).current_dir(self.root.join("workflows"));
        command.args(["--env", &format!("EFFECTS={}", self.root.join("effects").display())]);
        // Its target directory is its own.
        command.env_remove("CARGO_TARGET_DIR");
        command
    }

    async fn start(&self, arguments: &[&str]) -> Result<Up> {
        let mut up = Up::of(self.dev(arguments), &self.binaries).await?;
        said(&mut up, "Watching the sources", 1).await?;
        Ok(up)
    }

    /// How often the steps ran.
    fn effects(&self) -> usize {
        let text = std::fs::read_to_string(self.root.join("effects")).unwrap_or_default();
        text.lines().count()
    }
}

fn source(version: &str) -> String {
    match version {
        "broken" => "pub const VERSION: &str = ;\n".to_owned(),
        version => format!("pub const VERSION: &str = {version:?};\n"),
    }
}

/// Waits until it has said this so often.
pub async fn said(up: &mut Up, text: &str, times: usize) -> Result<Vec<String>> {
    let limit = Instant::now() + PATIENCE;
    loop {
        let process = &up.process;
        let lines = [process.stdout(), process.stderr()].concat();
        let found: Vec<String> = lines.iter().filter(|line| line.contains(text)).cloned().collect();
        if found.len() >= times {
            return Ok(found);
        }
        if Instant::now() >= limit || !up.process.is_running() {
            bail!("it did not say '{text}' {times} times:\n{}", lines.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn begin(up: &Up, id: &str) -> Result<()> {
    up.json(&["start", "Steps", "--id", id, "--input", ""])?;
    Ok(())
}

/// Lets an instance go on after its first three steps, and answers its output.
fn outcome(up: &Up, id: &str) -> Result<String> {
    up.json(&["enqueue", id, "go", "now"])?;
    let waited = up.json(&["wait", id, "--timeout", "120"])?;
    Ok(waited["output"].as_str().context("it has an output")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_replaces_the_functions_and_a_broken_build_leaves_them() -> Result<()> {
    let project = Project::of("dev-loop").await?;
    project.write("broken")?;
    let mut waiting = Process::spawn("dev", &mut project.dev(&[]))?;
    let waits = |line: &str| line.contains("Nothing runs yet").then_some(());
    waiting.wait_for(PATIENCE, waits).await?;
    project.write("one")?;
    let runs = |line: &str| line.contains("Watching the sources").then_some(());
    waiting.wait_for(PATIENCE, runs).await?;
    ensure!(
        waiting.stderr().iter().any(|line| line.contains("expected expression")),
        "as cargo prints it"
    );
    drop(waiting);

    let mut up = project.start(&[]).await?;
    let lines = up.process.stdout().join("\n");
    for part in ["    Steps 1.0.0\n", " start Steps --wait"] {
        ensure!(lines.contains(part), "{part}: {lines}");
    }
    ensure!(!lines.contains("fulfil-order"), "{lines}");
    for id in ["a", "b"] {
        begin(&up, id)?;
    }
    until("their first steps", || project.effects() == 6).await?;

    project.write("broken")?;
    said(&mut up, "expected expression", 1).await?;
    said(&mut up, "the functions of the last good build go on", 1).await?;
    project.write("two")?;
    said(&mut up, "orchestrator: replaced", 1).await?;
    said(&mut up, "worker: replaced", 1).await?;
    said(&mut up, "goes on with all 2 instances in flight", 1).await?;
    ensure!(outcome(&up, "a")? == "one one one two two two two");

    project.write("dead")?;
    let line = &said(&mut up, "worker: the new build does not start, the old one goes on", 1).await?[0];
    ensure!(line.contains("exit status: 7"), "{line}");
    said(&mut up, "orchestrator: replaced", 2).await?;
    ensure!(outcome(&up, "b")? == "one one one two two two dead");
    ensure!(project.effects() == 12, "each step once");
    let lines = up.process.stdout();
    ensure!(
        lines
            .iter()
            .any(|line| line.starts_with("a  ") && line.contains("a step ended")),
        "{lines:#?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_while_twenty_instances_run_loses_none() -> Result<()> {
    let project = Project::of("dev-twenty").await?;
    project.write("one")?;
    let hold = project.root.join("effects.hold");
    std::fs::write(&hold, "")?;
    // The activities that are held are not killed, however long the build takes.
    let mut up = project.start(&["--timeout", "600"]).await?;
    let ids: Vec<String> = (0..20).map(|number| format!("i-{number}")).collect();
    for id in &ids {
        begin(&up, id)?;
    }
    let has_second = || {
        let text = std::fs::read_to_string(project.root.join("effects")).unwrap_or_default();
        text.lines().any(|line| line.ends_with(" 2"))
    };
    until("an activity is under way", has_second).await?;
    project.write("two")?;
    said(&mut up, "worker: replaced", 1).await?;
    said(&mut up, "orchestrator: replaced", 1).await?;
    std::fs::remove_file(&hold)?;
    until("their first steps", || project.effects() == 60).await?;
    let mut mixed = 0;
    for id in &ids {
        let output = outcome(&up, id)?;
        ensure!(output.ends_with(" two two two two"), "{id}: {output}");
        mixed += usize::from(output.contains("one"));
    }
    ensure!(mixed > 0, "no instance went on across the replacement");
    ensure!(project.effects() == 120, "each step once: {}", project.effects());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_breaks_replay_is_reported_and_blocks_until_it_is_undone() -> Result<()> {
    let project = Project::of("dev-replay").await?;
    project.write("one")?;
    // The state is in a package, whose files are watched.
    let mut up = project.start(&["--instance", "shown", "--data", "state"]).await?;
    for id in ["shown", "hidden"] {
        begin(&up, id)?;
    }
    until("their first steps", || project.effects() == 6).await?;
    project.write("careless")?;
    said(&mut up, "does not fit 2 of 2 instances in flight", 1).await?;
    let reported = said(
        &mut up,
        "instance hidden (Steps 1.0.0): event 2: recorded activity Step, the new build",
        1,
    )
    .await?;
    ensure!(reported.len() == 1, "{reported:?}");
    said(&mut up, "orchestrator: replaced", 1).await?;
    up.json(&["enqueue", "shown", "go", "now"])?;
    until("it is blocked", || {
        up.json(&["status", "shown"])
            .is_ok_and(|found| found["status"] == "Blocked")
    })
    .await?;
    project.write("two")?;
    said(&mut up, "orchestrator: replaced", 2).await?;
    let waited = up.json(&["wait", "shown", "--timeout", "120"])?;
    ensure!(waited["output"] == "one one one two two two two", "{waited}");
    let lines = up.process.stdout();
    let of = |id: &str| lines.iter().filter(|line| line.starts_with(&format!("{id} "))).count();
    ensure!(of("shown") > 0 && of("hidden") == 0, "{lines:#?}");
    ensure!(project.root.join("workflows/state").exists(), "the state is kept there");
    let built = |line: &String| line.contains("workflows/state") && line.contains("changed: building");
    ensure!(!lines.iter().any(built), "{lines:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_is_left_to_a_process_that_the_user_starts() -> Result<()> {
    let project = Project::of("dev-attach").await?;
    project.write("one")?;
    let mut up = project.start(&["--attach", "worker"]).await?;
    let advice = said(&mut up, "exec ", 1).await?[0].clone();
    ensure!(advice.contains("worker.env"), "{advice}");
    let variables = project.root.join(".duroxide/worker.env");
    let mode = std::fs::metadata(&variables)?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}: it may hold keys");
    // Without the subshell: the process that is killed must be the function.
    let advice = advice.trim().trim_start_matches('(').trim_end_matches(')').to_owned();
    begin(&up, "a")?;
    // What the user pastes.
    let attach = || {
        let mut shell = Command::new("sh");
        shell.args(["-c", &advice]).stdout(Stdio::null()).stderr(Stdio::null());
        anyhow::Ok(Attached(shell.spawn()?))
    };
    let first = attach()?;
    // Started, three activities, and the wait for a message.
    until("its first steps have results", || {
        up.json(&["status", "a"]).is_ok_and(|found| found["events"] == 8)
    })
    .await?;
    drop(first);
    up.json(&["enqueue", "a", "go", "now"])?;
    project.write("two")?;
    said(&mut up, "worker: built. Start your process again", 1).await?;
    ensure!(project.effects() == 3, "nothing is attached");
    let second = attach()?;
    let waited = up.json(&["wait", "a", "--timeout", "120"])?;
    ensure!(waited["output"] == "one one one two two two two", "{waited}");
    ensure!(project.effects() == 6, "each step once");
    drop(second);
    signal(up.process.id(), "INT")?;
    until("it stops", || !up.process.is_running()).await?;
    ensure!(!variables.exists(), "the variables are left");
    let left = std::fs::read_dir(project.root.join(".duroxide/bin"))?;
    let left: Vec<PathBuf> = left.flatten().map(|entry| entry.path()).collect();
    ensure!(!left.iter().any(|path| path.is_dir()), "{left:?}");
    Ok(())
}

/// A process of the user, killed on drop.
struct Attached(std::process::Child);

impl Drop for Attached {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_said_with_what_to_do() -> Result<()> {
    let project = Project::of("dev-mistakes").await?;
    project.write("one")?;
    let said = refused(project.dev(&["--attach", "wroker"])).await?;
    ensure!(said.contains("worker, maintenance, api, orchestrator"), "{said}");
    let mut elsewhere = project.dev(&[]);
    elsewhere.current_dir("/");
    let said = refused(elsewhere).await?;
    ensure!(
        said.contains("duroxide-lambda.toml") && said.contains("duroxide-lambda new"),
        "{said}"
    );
    std::fs::write(
        project.root.join("duroxide-lambda.toml"),
        "name = \"stepper\"\n[functions]\nworker = \"activities\"\n",
    )?;
    let said = refused(project.dev(&[])).await?;
    ensure!(
        said.contains("no package of this workspace has a binary activities"),
        "{said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn up_uses_a_binary_that_was_built_again_and_suggests_what_it_registers() -> Result<()> {
    let directory = fresh_directory("up-rebuilt")?;
    let build = |version: &str| -> Result<()> {
        let script = "rm -f \"$1\" && cp \"$0\" \"$1\" && printf %s \"VERSION:$2\" >> \"$1\"";
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, FUNCTION])
            .arg(directory.join("function"))
            .arg(version);
        ensure!(shell.status()?.success(), "it cannot be copied");
        Ok(())
    };
    build("one")?;
    let binaries = Binaries::built().await?;
    let mut command = binaries.local(&["up", "--port", "0", "--cosmos-port", "0"]);
    for name in ["orchestrator", "worker", "maintenance"] {
        command.arg(format!("--{name}")).arg(directory.join("function"));
    }
    command.arg("--api").arg(binaries.api());
    command.args(["--env", &format!("EFFECTS={}", directory.join("effects").display())]);
    let mut up = Up::of(command, &binaries).await?;
    said(&mut up, "Ctrl-C stops it", 1).await?;
    let lines = up.process.stdout().join("\n");
    ensure!(
        lines.contains("    Steps 1.0.0\n") && lines.contains("/orchestrations/Steps/instances"),
        "{lines}"
    );
    ensure!(!lines.contains("fulfil-order") && !lines.contains("orders"), "{lines}");
    build("two")?;
    said(&mut up, "has changed. New invocations use it.", 3).await?;
    begin(&up, "a")?;
    ensure!(outcome(&up, "a")? == "two two two two two two two");
    Ok(())
}
