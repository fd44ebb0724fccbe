//! `duroxide-lambda new`: a project of the user's own, which compiles, passes its tests and runs at once.
//!
//! ```text
//!   arguments ─> name (is it one?) ─> source (where is duroxide-lambda?) ─> files (templates, filled in) ─> write ─> what to do next
//! ```
//!
//! Everything is decided before anything is written, and what was written is removed if the rest cannot be. No other program is
//! started.
//!
//! | module | role |
//! |---|---|
//! | `name` | pure: which names a project may have |
//! | `source` | where the project gets duroxide-lambda from: a directory, a git repository, a registry |
//! | `files` | pure: the files of a project, from the templates in `infra/cli/templates` |
//! | `write` | all files or none |

mod files;
mod name;
mod source;
#[cfg(test)]
mod tests;
mod write;

use crate::terminal::{shell_word, text::escape};
use clap::Args;
use files::Kind;
use source::{Source, SourceArguments};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

/// Create a project: workflows, their tests, the functions, and what it takes to run and deploy them
///
/// The project compiles, passes its tests and runs at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  duroxide-lambda new greeter --minimal
  duroxide-lambda new ../travel
  duroxide-lambda new travel --git https://example.com/duroxide-lambda.git --rev 1a2b3c4")]
pub(crate) struct New {
    /// The directory to create; its last part is the name of the project
    #[arg(value_name = "NAME")]
    directory: PathBuf,
    /// The name of the project, if the directory has another one
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// One orchestration and one activity, instead of the full example
    #[arg(long)]
    minimal: bool,
    #[command(flatten)]
    source: SourceArguments,
}

/// Why there is no new project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewError {
    #[error(transparent)]
    Name(#[from] name::NameError),
    #[error(transparent)]
    Source(#[from] source::SourceError),
    #[error(transparent)]
    Write(#[from] write::WriteError),
    #[error("{} does not end in a name: give the project one with --name", .0.display())]
    NoName(PathBuf),
    #[error("{} has no place for a project: create the directory above it first", directory.display())]
    NoParent { directory: PathBuf, source: std::io::Error },
}

impl New {
    pub(crate) fn run(self) -> Result<ExitCode, NewError> {
        let root = absolute(&self.directory)?;
        let name = self.name(&root)?;
        name::check(&name)?;
        let source = Source::of(self.source, Source::own())?;
        let kind = if self.minimal { Kind::Minimal } else { Kind::Full };
        write::create(&root, &files::of(kind, &name, &source, &root)?)?;
        print!("{}", next_steps(kind, &name, &self.directory, &program()));
        Ok(ExitCode::SUCCESS)
    }

    fn name(&self, root: &Path) -> Result<String, NewError> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let last = root.file_name().and_then(|name| name.to_str());
        last.map(str::to_owned)
            .ok_or_else(|| NewError::NoName(self.directory.clone()))
    }
}

/// The directory without `.`, `..` and links above it; it need not exist, but the one above it must.
fn absolute(directory: &Path) -> Result<PathBuf, NewError> {
    if let Ok(existing) = fs::canonicalize(directory) {
        return Ok(existing);
    }
    let named = directory.file_name();
    let name = named.ok_or_else(|| NewError::NoName(directory.to_owned()))?;
    let above = match directory.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let above = fs::canonicalize(above).map_err(|source| NewError::NoParent {
        directory: directory.to_owned(),
        source,
    })?;
    Ok(above.join(name))
}

/// How to run this program from another directory: by its name, if a shell finds it, or by its path.
fn program() -> String {
    let Ok(this) = env::current_exe() else {
        return "duroxide-lambda".to_owned();
    };
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).any(|directory| {
        let candidate = directory.join("duroxide-lambda");
        fs::canonicalize(candidate).is_ok_and(|candidate| candidate == this)
    });
    if found {
        "duroxide-lambda".to_owned()
    } else {
        shell_word(&this.display().to_string())
    }
}

fn next_steps(kind: Kind, name: &str, directory: &Path, program: &str) -> String {
    let directory = directory.display().to_string();
    let start = match kind {
        Kind::Minimal => format!("    {program} start hello --input world --wait\n"),
        Kind::Full => format!(
            "    {program} start book-trip --id oslo --input '{}'\n    \
             {program} enqueue oslo confirmation yes\n    \
             {program} wait oslo\n",
            files::TRIP
        ),
    };
    format!(
        "Created the project {name} in {}.\n\n\
         Test it, then run it on this machine:\n\n    \
         cd {}\n    cargo test\n    {program} dev\n\n\
         When it is up, start a workflow in a second terminal:\n\n{start}\n\
         The README.md of the project has the rest: the code, the dashboard, the deployment.\n",
        escape(&directory),
        shell_word(&directory),
    )
}
