//! The loop of a binary that replays: a line in, a line out.

use super::compare::replay;
use super::recording::Recording;
use super::replayed::{Ready, Registered};
use super::{VARIABLE, compare};
use crate::canary;
use duroxide::OrchestrationRegistry;
use lambda_runtime::Error;
use serde::Serialize;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::parent_id;
use std::time::Duration;
use std::{env, process, thread};

/// How often to look for the parent.
const LOOK: Duration = Duration::from_millis(500);

/// Whether this process was started to replay, and the first word of its answers.
pub(crate) fn is_wanted() -> Option<String> {
    env::var(VARIABLE).ok().filter(|word| !word.is_empty())
}

/// Replays the histories that come on stdin, until it ends.
pub(crate) async fn serve(word: String, orchestrations: OrchestrationRegistry) -> Result<(), Error> {
    end_with_the_parent();
    // The code may block its thread, as in a function; it finds tokio's runtime there.
    tokio::task::spawn_blocking(move || answer_lines(&word, &orchestrations)).await?
}

/// Ends this process when the one that started it is gone. Code that loops would never read the end of its input.
fn end_with_the_parent() {
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(LOOK);
        }
        process::exit(1);
    });
}

fn answer_lines(word: &str, orchestrations: &OrchestrationRegistry) -> Result<(), Error> {
    compare::note_panics();
    write(word, &ready(orchestrations))?;
    // A canary may be on its way, too; the list of names is that of the user.
    let orchestrations = &canary::with_orchestration(orchestrations);
    for line in io::stdin().lock().lines() {
        let recording = Recording::parse(&line?)?;
        write(word, &replay(recording, orchestrations))?;
    }
    Ok(())
}

fn ready(orchestrations: &OrchestrationRegistry) -> Ready {
    let mut names = orchestrations.list_names();
    names.sort();
    let registered = |name: String| {
        let mut versions = orchestrations.list_versions(&name);
        versions.sort();
        Registered {
            versions: versions.iter().map(ToString::to_string).collect(),
            name,
        }
    };
    Ready {
        duroxide: duroxide::current_build_version().to_string(),
        orchestrations: names.into_iter().map(registered).collect(),
    }
}

/// Writes an answer as a line of its own, whatever the user's code has printed before.
fn write(word: &str, answer: &impl Serialize) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "\n{word} {}", serde_json::to_string(answer)?)?;
    stdout.flush()?;
    Ok(())
}
