//! Where a project gets duroxide-lambda from: a directory, a git repository, or the registry of crates.
//!
//! Invariant: both crates of a project come from the same source, because they are released together. Without an option it is the
//! checkout that this program was built from, if it is still there, or the release that cargo has installed.

use crate::terminal::shell_word;
use clap::Args;
use std::path::{Component, Path, PathBuf};

/// The package of this program.
const PROGRAM: &str = env!("CARGO_PKG_NAME");

/// A crate that a project depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// `duroxide-lambda`.
    Host,
    /// `duroxide-lambda-api`, as a Lambda function.
    Api,
}

impl Library {
    /// Its folder in a checkout.
    fn folder(self) -> &'static str {
        match self {
            Library::Host => "shared/host",
            Library::Api => "shared/api",
        }
    }

    /// What a dependency says besides the source.
    fn features(self) -> &'static str {
        match self {
            Library::Host => "",
            Library::Api => ", default-features = false, features = [\"lambda\"]",
        }
    }
}

/// The options that choose the source.
#[derive(Args, Debug, Default)]
pub(crate) struct SourceArguments {
    /// Depend on duroxide-lambda in this checkout [default: where this program was built from]
    #[arg(long, value_name = "DIR", group = "origin")]
    path: Option<PathBuf>,
    /// Depend on duroxide-lambda in this git repository
    #[arg(long, value_name = "URL", group = "origin")]
    git: Option<String>,
    /// The commit of the git repository [default: its newest]
    #[arg(long, value_name = "REV", requires = "git")]
    rev: Option<String>,
    /// Depend on published crates of this version, like 0.1
    #[arg(long, value_name = "VERSION", group = "origin")]
    published: Option<String>,
}

/// Where duroxide-lambda is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A checkout, by its absolute path.
    Path(PathBuf),
    /// A git repository.
    Git { url: String, rev: Option<String> },
    /// Published crates of this version.
    Published(String),
}

/// Why there is no source.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error(
        "the checkout that this program was built from is not there any more: say where duroxide-lambda is with --path DIR or --git URL, or name a published version with --published VERSION"
    )]
    NoCheckout,
    #[error(
        "this program was installed from a git repository: name that with --git URL, or a checkout with --path DIR"
    )]
    FromGit,
    #[error("{} is no checkout of duroxide-lambda: it has no {missing}", directory.display())]
    NotACheckout { directory: PathBuf, missing: String },
    #[error("{} cannot be written into Cargo.toml: it is no Unicode", .0.display())]
    NotUnicode(PathBuf),
    #[error("--git '{0}' is no address of a repository: write it like https://example.com/duroxide-lambda.git")]
    Git(String),
    #[error("--rev '{0}' is no commit, branch or tag")]
    Rev(String),
    #[error("--published '{version}' is no version: write it like 0.1")]
    Version { version: String, source: semver::Error },
}

impl Source {
    /// The source that the options choose, or else the default.
    pub(crate) fn of(arguments: SourceArguments, default: Result<Source, SourceError>) -> Result<Source, SourceError> {
        let SourceArguments {
            path,
            git,
            rev,
            published,
        } = arguments;
        match (git, published) {
            (Some(url), _) => Source::git(url, rev),
            (None, Some(version)) => match semver::VersionReq::parse(&version) {
                Ok(_) => Ok(Source::Published(version)),
                Err(source) => Err(SourceError::Version { version, source }),
            },
            (None, None) => match path {
                Some(directory) => checked(&directory).map(Source::Path),
                None => default,
            },
        }
    }

    /// Where this program was built from.
    pub(crate) fn own() -> Result<Source, SourceError> {
        Source::with(Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// Where a program whose package was in this folder was built from. Copies of cargo's own are no checkouts: cargo may remove them.
    pub(super) fn with(package: &Path) -> Result<Source, SourceError> {
        let is_below = |folder: &str| package.to_string_lossy().contains(folder);
        if is_below("/registry/src/") {
            return Ok(Source::Published(env!("CARGO_PKG_VERSION").to_owned()));
        }
        if is_below("/git/checkouts/") {
            return Err(SourceError::FromGit);
        }
        let root = package
            .join("../..")
            .canonicalize()
            .map_err(|_| SourceError::NoCheckout)?;
        checked(&root).map(Source::Path).map_err(|_| SourceError::NoCheckout)
    }

    fn git(url: String, rev: Option<String>) -> Result<Source, SourceError> {
        if !is_plain(&url) || !url.contains([':', '/']) {
            return Err(SourceError::Git(url));
        }
        match rev {
            Some(rev) if !is_plain(&rev) => Err(SourceError::Rev(rev)),
            rev => Ok(Source::Git { url, rev }),
        }
    }

    /// The dependency on a crate as the value of TOML, in a project with this root.
    pub(crate) fn dependency(&self, library: Library, root: &Path) -> Result<String, SourceError> {
        let source = match self {
            Source::Path(checkout) => {
                let path = relative(&checkout.join(library.folder()), root);
                format!("path = {}", quoted(&text(&path)?))
            }
            Source::Git { url, rev: None } => format!("git = {}", quoted(url)),
            Source::Git { url, rev: Some(rev) } => format!("git = {}, rev = {}", quoted(url), quoted(rev)),
            Source::Published(version) => format!("version = {}", quoted(version)),
        };
        Ok(format!("{{ {source}{} }}", library.features()))
    }

    /// What `cargo install` needs, in a project with this root, to install this program.
    pub(crate) fn install(&self, root: &Path) -> Result<String, SourceError> {
        Ok(match self {
            Source::Path(checkout) => {
                let path = relative(&checkout.join("infra/cli"), root);
                // Fast enough on a developer's machine, and it reuses what is compiled in the checkout.
                format!("--debug --path {}", shell_word(&text(&path)?))
            }
            Source::Git { url, rev } => {
                let rev = rev.as_ref().map(|rev| format!(" --rev {}", shell_word(rev)));
                format!("--git {}{} {PROGRAM}", shell_word(url), rev.unwrap_or_default())
            }
            Source::Published(version) => format!("{PROGRAM} --version {}", shell_word(&installable(version))),
        })
    }
}

/// The absolute path of a checkout.
fn checked(directory: &Path) -> Result<PathBuf, SourceError> {
    for library in [Library::Host, Library::Api] {
        let manifest = format!("{}/Cargo.toml", library.folder());
        if !directory.join(&manifest).is_file() {
            return Err(SourceError::NotACheckout {
                directory: directory.to_owned(),
                missing: manifest,
            });
        }
    }
    directory.canonicalize().map_err(|_| SourceError::NotACheckout {
        directory: directory.to_owned(),
        missing: "absolute path".to_owned(),
    })
}

/// A version as `cargo install` takes it, which wants a qualifier unless it is complete.
fn installable(version: &str) -> String {
    let is_qualified = version.contains(['<', '>', '=', '^', '~', '*']);
    match is_qualified || semver::Version::parse(version).is_ok() {
        true => version.to_owned(),
        false => format!("^{version}"),
    }
}

/// Whether a text can stand in a command and a file as it is.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_graphic())
}

/// The path as seen from a directory, so that both can be moved together. Both are absolute. What has only the root in common is
/// not moved together.
fn relative(path: &Path, from: &Path) -> PathBuf {
    let common = path
        .components()
        .zip(from.components())
        .take_while(|(a, b)| a == b)
        .count();
    if common < 2 {
        return path.to_owned();
    }
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(path.components().skip(common)).collect()
}

fn text(path: &Path) -> Result<String, SourceError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| SourceError::NotUnicode(path.to_owned()))
}

/// A string of TOML: JSON's escapes are among those of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
