//! The running loop: a change of a source, a build, a check of the instances in flight, a replacement of the functions.

use super::attach::{self, VariablesFile};
use super::cargo::{Workspace, is_manifest, without_workspace};
use super::logs::{self, Lines};
use super::shelf::Shelf;
use super::watch::{Changes, Sources};
use super::{Dev, FOLDER, Function, functions};
use crate::client::{self, CheckTime, Checked};
use crate::project::{FILE, Project};
use crate::suggestions::{as_orchestrator, workflows};
use crate::terminal::text::escape_lines;
use crate::up::{Output, PORT, with_advice_of};
use anyhow::Context as _;
use cosmos_emulator::CosmosServer;
use local_cloud::{Cloud, CloudError, CloudOptions, LogSink};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The time for the check of a new orchestrator. The API may wait for a debugger.
const TIME: CheckTime = CheckTime {
    each: Duration::from_secs(10),
    all: Duration::from_secs(60),
};
/// How this program is called in hints: not as `cargo run`, which would be that of the project.
const PROGRAM: &str = "duroxide-lambda";

/// The sources of a project, and what they became.
struct Sourced<'a> {
    dev: &'a Dev,
    project: Project,
    functions: Vec<Function>,
    binaries: BTreeSet<String>,
    workspace: Option<Workspace>,
    sources: Sources,
    changes: Changes,
    shelf: Shelf,
    stdout: &'a Output,
}

/// A build: the files that cargo wrote, by name, and their copies, by function.
struct Built {
    files: BTreeMap<String, PathBuf>,
    copies: BTreeMap<String, PathBuf>,
}

/// See the module.
pub(super) struct Session<'a> {
    sourced: Sourced<'a>,
    cloud: Cloud,
    /// The copies that run, by function.
    running: BTreeMap<String, PathBuf>,
    variables: Vec<(String, String)>,
    /// Of the functions to attach to.
    attached: Vec<VariablesFile>,
    showing: JoinHandle<()>,
}

impl<'a> Session<'a> {
    /// Builds until it succeeds, and starts the cloud.
    pub(super) async fn start(dev: &'a Dev, project: Project, stdout: &'a Output) -> anyhow::Result<Session<'a>> {
        let mut sourced = Sourced::open(dev, project, stdout)?;
        loop {
            if let Some(built) = sourced.build().await? {
                let (sink, lines) = logs::lines(dev.shown.clone());
                let options = sourced.options(&built, sink).await?;
                let variables = options.variables.clone();
                match Cloud::start(options).await {
                    Ok(cloud) => return Session::welcome(sourced, cloud, built, variables, lines).await,
                    // The next build may start.
                    Err(CloudError::Function { function, error }) => {
                        let why = escape_lines(&error.to_string());
                        stdout.line(&format!("the function {function} does not start: {why}"));
                    }
                    Err(error) => return Err(with_advice_of(error, dev.cosmos_port, "--port")),
                }
            }
            stdout.line("Nothing runs yet. Waiting for a change of the sources ...");
            sourced.changed().await;
        }
    }

    async fn welcome(
        mut sourced: Sourced<'a>,
        cloud: Cloud,
        built: Built,
        variables: Vec<(String, String)>,
        lines: Lines,
    ) -> anyhow::Result<Session<'a>> {
        let api = cloud.api().unwrap_or_default();
        let stdout = sourced.stdout;
        stdout.line(&sourced.addresses(&cloud));
        let orchestrator = built.copies.get("orchestrator");
        let orchestrator = orchestrator.context("there is no orchestrator")?;
        let workflows = workflows(orchestrator, &variables).await;
        let export = sourced.dev.port(&sourced.project) != PORT;
        stdout.line(&workflows.commands(&api, PROGRAM, export));
        let mut attached = Vec::new();
        for function in &sourced.functions {
            if let Some(variables) = cloud.attachment(&function.name) {
                let file = VariablesFile::write(&sourced.folder(), &function.name, &variables)?;
                let binary = built.files.get(&function.binary).context("it was built")?;
                stdout.line(&attach::advice(&function.name, binary, file.path(), &variables));
                attached.push(file);
            }
        }
        stdout.line("Watching the sources: functions are replaced when they change. Ctrl-C stops it.\n");
        sourced.shelf.tidy(built.copies.values().cloned().collect());
        let shown = stdout.clone();
        let showing = tokio::spawn(async move {
            if let Err(why) = lines.show(&api, &shown).await {
                shown.line(&format!("the logs cannot be shown: {why}"));
            }
        });
        Ok(Session {
            sourced,
            cloud,
            running: built.copies,
            variables,
            attached,
            showing,
        })
    }

    /// Follows the sources until it is dropped.
    pub(super) async fn run(&mut self) {
        loop {
            self.sourced.changed().await;
            match self.sourced.build().await {
                Ok(Some(built)) => self.take(built).await,
                Ok(None) => self.say("The build failed: the functions of the last good build go on."),
                Err(error) => self.say(&format!(
                    "error: {}\nThe functions of the last good build go on.",
                    escape_lines(&format!("{error:#}"))
                )),
            }
        }
    }

    pub(super) async fn stop(self) -> std::io::Result<()> {
        // Removes the files.
        drop(self.attached);
        let stopped = self.cloud.shutdown().await;
        self.showing.abort();
        stopped
    }

    /// Checks a build, and replaces the functions that it changes.
    async fn take(&mut self, built: Built) {
        let changed: Vec<String> = self
            .sourced
            .functions
            .iter()
            .map(|function| &function.name)
            .filter(|name| built.copies.get(*name) != self.running.get(*name))
            .cloned()
            .collect();
        if changed.is_empty() {
            return self.say("Built: no function has changed.");
        }
        if let Some(orchestrator) = built.copies.get("orchestrator")
            && changed.iter().any(|name| name == "orchestrator")
        {
            self.check(orchestrator).await;
        }
        for name in &changed {
            let Some(copy) = built.copies.get(name) else { continue };
            let said = match self.cloud.replace(name, copy).await {
                Ok(()) => {
                    self.running.insert(name.clone(), copy.clone());
                    match self.cloud.attachment(name) {
                        Some(_) => format!("{name}: built. Start your process again to use it."),
                        None => format!("{name}: replaced. New invocations use the new build."),
                    }
                }
                Err(error) => {
                    let why = escape_lines(&error.to_string());
                    format!("{name}: the new build does not start, the old one goes on: {why}")
                }
            };
            self.say(&said);
        }
        self.sourced.shelf.tidy(self.running.values().cloned().collect());
    }

    /// Replays the instances in flight on a new orchestrator, and reports those that it cannot go on with.
    async fn check(&self, orchestrator: &Path) {
        let api = self.cloud.api().unwrap_or_default();
        let variables = as_orchestrator(&self.variables);
        match client::check(&api, orchestrator, &variables, TIME).await {
            Ok(checked) => {
                if let Some(said) = found(&checked) {
                    self.say(&said);
                }
            }
            Err(why) => self.say(&format!("Replay: the check could not be made: {}", escape_lines(&why))),
        }
    }

    fn say(&self, text: &str) {
        self.sourced.stdout.line(text);
    }
}

/// What a check has found, for the person at the terminal. Nothing, if there was nothing to check.
fn found(checked: &Checked) -> Option<String> {
    let Checked {
        replayed,
        faults,
        unreadable,
        unchecked,
        text,
    } = checked;
    if faults + unreadable + unchecked == 0 {
        let all = format!("Replay: the new orchestrator goes on with all {replayed} instances in flight.");
        return (*replayed > 0).then_some(all);
    }
    let mut said = match faults {
        0 => format!("Replay: the new orchestrator goes on with {replayed} instances in flight."),
        _ => format!("Replay: the new orchestrator does not fit {faults} of {replayed} instances in flight."),
    };
    if *unchecked > 0 {
        said += &format!(" {unchecked} more were not checked within {} s.", TIME.all.as_secs());
    }
    said += &format!("\n{text}");
    if *faults > 0 {
        said += &format!(
            "\nIt is used all the same. Instances that it would block wait, untouched, until a compatible build runs: undo the change, or keep the old \
             code under its version and register the new code as a new one. `{PROGRAM} restart ID` begins one again with the new code."
        );
    }
    Some(said)
}

impl<'a> Sourced<'a> {
    fn open(dev: &'a Dev, project: Project, stdout: &'a Output) -> anyhow::Result<Sourced<'a>> {
        let functions = functions(&project);
        dev.check(&functions)?;
        let folder = project.root.join(FOLDER);
        let shelf = Shelf::open(folder.join("bin"))?;
        // Whatever is below belongs to this machine, and may hold keys.
        let ignore = folder.join(".gitignore");
        std::fs::write(&ignore, "*\n").with_context(|| format!("{} cannot be written", ignore.display()))?;
        let sources = without_workspace(&project, dev.state(&project));
        Ok(Sourced {
            dev,
            binaries: functions.iter().map(|function| function.binary.clone()).collect(),
            functions,
            workspace: None,
            changes: Changes::since(sources.look()),
            sources,
            shelf,
            stdout,
            project,
        })
    }

    fn folder(&self) -> PathBuf {
        self.project.root.join(FOLDER)
    }

    /// Waits for a change of the sources.
    async fn changed(&mut self) {
        let changed = self.changes.next(&self.sources).await;
        let name = |path: &PathBuf| {
            let path = path.strip_prefix(&self.project.root).unwrap_or(path);
            path.display().to_string()
        };
        let rest = match changed.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = changed.first().map(name).unwrap_or_default();
        self.stdout.line(&format!("\n{first}{rest} changed: building ..."));
        if changed.contains(&self.project.root.join(FILE)) {
            self.stdout
                .line(&format!("{FILE} has changed: start {PROGRAM} dev again to use it."));
        }
        if changed.iter().any(|path| is_manifest(path)) {
            self.workspace = None;
        }
    }

    /// Builds the sources as they are now. `None` if cargo has reported errors.
    async fn build(&mut self) -> anyhow::Result<Option<Built>> {
        if self.workspace.is_none() {
            self.workspace = Workspace::load(&self.project, &self.binaries).await?;
            let state = self.dev.state(&self.project);
            let sources = match &self.workspace {
                Some(workspace) => workspace.sources(&self.project, state),
                // A package outside of the project may be the one to repair.
                None => self.sources.with(without_workspace(&self.project, state)),
            };
            // Cargo may have read these before they changed.
            let read = |path: &Path| is_manifest(path) || self.sources.files.contains(path);
            self.changes.follow(&self.sources, &sources, read);
            self.sources = sources;
            if let Some(workspace) = &self.workspace {
                // Cargo has completed it. What changes from now on is a change.
                self.changes.expect(&workspace.lock_file());
            }
        }
        let Some(workspace) = &self.workspace else {
            return Ok(None);
        };
        let Some(files) = workspace.build(&self.binaries, self.dev.release).await? else {
            return Ok(None);
        };
        let mut copies = BTreeMap::new();
        for function in &self.functions {
            if let Some(file) = files.get(&function.binary) {
                copies.insert(function.name.clone(), self.shelf.put(file)?);
            }
        }
        Ok(Some(Built { files, copies }))
    }

    /// The options of a cloud of this build.
    async fn options(&self, built: &Built, logs: LogSink) -> anyhow::Result<CloudOptions> {
        let copy = |name: &str| built.copies.get(name).cloned();
        let mut arguments = self.dev.cloud(&self.project);
        arguments.orchestrator = copy("orchestrator");
        arguments.worker = copy("worker");
        arguments.maintenance = copy("maintenance");
        arguments.api = copy("api");
        let mut options = arguments.options(self.dev.cosmos_port).await?;
        options.logs = logs;
        options.port = self.dev.port(&self.project);
        options.api_port = match options.port {
            0 => 0,
            port => port.saturating_add(1),
        };
        for (place, function) in self.functions.iter().enumerate() {
            if let (Some(tag), Some(copy)) = (&function.tag, copy(&function.name)) {
                options.tagged.insert(tag.clone(), copy);
            }
            if self.dev.attach.contains(&function.name) {
                let port = attach::port(options.port, place);
                options.attached.insert(function.name.clone(), port);
            }
        }
        Ok(options)
    }

    fn addresses(&self, cloud: &Cloud) -> String {
        let data = self.dev.data.as_ref().or(self.project.local.data.as_ref());
        let kept = match data {
            Some(data) => format!("kept in {}", data.display()),
            None => format!("in memory, lost at the end; data in [local] of {FILE} keeps it"),
        };
        let api = cloud.api().unwrap_or_default();
        let mut text = format!("\n{} runs on the local cloud.\n\n", self.project.name);
        text += &format!("  Dashboard       {api}/\n");
        text += &format!("  HTTP API        {api}\n");
        text += &format!("  Cosmos DB       {}  ({kept})\n", cloud.variables()["COSMOS_ENDPOINT"]);
        text += &format!("  SQS and Lambda  {}\n", cloud.endpoint());
        if let (Some(data), Some(found)) = (data, cloud.cosmos().and_then(CosmosServer::recovered)) {
            text += &format!("\n{}\n", found.describe(data));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_never_says_all_when_something_was_not_replayed() {
        let checked = |faults, unreadable, unchecked| Checked {
            replayed: 4,
            faults,
            unreadable,
            unchecked,
            text: "the lines".to_owned(),
        };
        let all = found(&checked(0, 0, 0)).unwrap();
        assert!(all.contains("goes on with all 4 instances"), "{all}");
        let cases = [
            ((0, 1, 0), "goes on with 4 instances in flight.\nthe lines"),
            ((0, 0, 7), "7 more were not checked within 60 s.\nthe lines"),
            (
                (1, 0, 2),
                "does not fit 1 of 4 instances in flight. 2 more were not checked",
            ),
        ];
        for ((faults, unreadable, unchecked), part) in cases {
            let said = found(&checked(faults, unreadable, unchecked)).unwrap();
            assert!(said.contains(part) && !said.contains("all 4"), "{said}");
            assert_eq!(said.contains("restart ID"), faults > 0, "{said}");
        }
        let nothing = Checked {
            replayed: 0,
            ..checked(0, 0, 0)
        };
        assert_eq!(found(&nothing), None);
    }
}
