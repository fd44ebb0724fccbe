//! Functions that the user starts, in a debugger for example: their variables in a file, and what to type.

use crate::terminal::shell_word;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The first port of an attached function after that of SQS and Lambda; the HTTP API has the one between.
const FIRST: u16 = 2;
/// Only the user reads the variables: some may be keys.
const MODE: u32 = 0o600;

/// The port of a function's Runtime API: always the same for the same project, so that the settings of a debugger can name it.
pub(super) fn port(base: u16, place: usize) -> u16 {
    let offset = u16::try_from(place).unwrap_or(u16::MAX).saturating_add(FIRST);
    match base {
        0 => 0,
        base => base.checked_add(offset).unwrap_or(0),
    }
}

/// The variables of a function in a file, for shells and for editors. It is removed when this is dropped.
pub(super) struct VariablesFile {
    path: PathBuf,
    text: String,
}

impl VariablesFile {
    /// Writes `NAME.env` in this folder.
    pub(super) fn write(
        folder: &Path,
        function: &str,
        variables: &BTreeMap<String, String>,
    ) -> anyhow::Result<VariablesFile> {
        let path = folder.join(format!("{function}.env"));
        let text = text(variables);
        create(&path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(VariablesFile { path, text })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for VariablesFile {
    fn drop(&mut self) {
        // Another session may have written its own.
        if fs::read_to_string(&self.path).is_ok_and(|found| found == self.text) {
            // One that stays can be read by the user only, and the next session that attaches replaces it.
            fs::remove_file(&self.path).unwrap_or_default();
        }
    }
}

/// Writes a new file. An old one is removed: it may have another mode, or be open elsewhere.
fn create(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(MODE);
    options.open(path)?.write_all(text.as_bytes())
}

fn text(variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string does not fail.
        writeln!(text, "{name}={}", shell_word(value)).unwrap_or_default();
        text
    })
}

/// What to type.
pub(super) fn advice(function: &str, binary: &Path, file: &Path, variables: &BTreeMap<String, String>) -> String {
    let (file, binary) = (
        shell_word(&file.display().to_string()),
        shell_word(&binary.display().to_string()),
    );
    let address = variables
        .get("AWS_LAMBDA_RUNTIME_API")
        .map(String::as_str)
        .unwrap_or_default();
    format!(
        "The function {function} waits for a process of yours: one invocation at a time, and no timeout ends it. In another terminal:\n    \
         (set -a; . {file}; exec {binary})\n\
         or in a debugger:\n    \
         (set -a; . {file}; exec rust-gdb -ex run {binary})\n\
         AWS_LAMBDA_RUNTIME_API is {address}; the file has the other variables. Start it again after a build.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_that_of_the_http_api_unless_any_is_free() {
        assert_eq!([port(9400, 0), port(9400, 3)], [9402, 9405]);
        assert_eq!([port(0, 1), port(u16::MAX, 1)], [0, 0]);
    }

    #[test]
    fn a_shell_reads_the_variables_as_they_are() {
        let variables: BTreeMap<String, String> = [
            ("A", "plain:value=="),
            ("B", "it's $LATEST"),
            ("C", ""),
            ("D", r#"{"gpu":"http://x"}"#),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let folder = std::env::temp_dir().join(format!("attach-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = VariablesFile::write(&folder, "worker", &variables).unwrap();
        let script = "set -a; . \"$0\"; printf '%s|%s|%s|%s' \"$A\" \"$B\" \"$C\" \"$D\"";
        let shell = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(file.path())
            .output();
        std::fs::remove_dir_all(&folder).unwrap();
        let read = String::from_utf8(shell.unwrap().stdout).unwrap();
        let expected: Vec<&str> = variables.values().map(String::as_str).collect();
        assert_eq!(read, expected.join("|"));
    }

    #[test]
    fn only_the_user_reads_the_file_and_it_is_removed_at_the_end() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("attach-mode-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let old = folder.join("worker.env");
        fs::write(&old, "A=old\n").unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o644)).unwrap();
        let write = |value: &str| {
            let variables = BTreeMap::from([("A".to_owned(), value.to_owned())]);
            VariablesFile::write(&folder, "worker", &variables).unwrap()
        };
        let first = write("first");
        let mode = fs::metadata(first.path()).unwrap().permissions().mode();
        let second = write("second");
        drop(first);
        let of_another = second.path().exists();
        drop(second);
        let left = old.exists();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(mode & 0o777, MODE);
        assert!(of_another, "the file of another session stays");
        assert!(!left);
    }
}
