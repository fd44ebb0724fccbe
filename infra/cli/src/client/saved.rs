//! Saved histories: one file per execution of an instance, in a folder.

use super::answer::Failure;
use crate::ambient;
use duroxide_lambda::replay::Recording;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a file name shows as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// The most bytes of an id in a file name; file systems allow 255 for all of it.
const MOST_OF_ID: usize = 180;

/// The file of an execution: the id percent-encoded, then the execution. A long id is cut, and followed by a digest of it.
pub(super) fn file_name(instance: &str, execution: u64) -> String {
    let mut id = utf8_percent_encode(instance, ENCODED).to_string();
    // Neither a hidden file nor a folder.
    if id.starts_with('.') {
        id.replace_range(..1, "%2E");
    }
    if id.len() > MOST_OF_ID {
        let digest = Sha256::digest(instance);
        let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        id.truncate(MOST_OF_ID);
        id.push('~');
        id.push_str(&digest);
    }
    format!("{id}.{execution}.json")
}

/// Creates the folder.
pub(super) fn prepare(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::error(format!("the folder '{}' cannot be created: {error}", folder.display())))
}

/// Saves a history, and returns its file. It replaces what was saved of the same execution before, and nothing else.
pub(super) fn save(folder: &Path, recording: &Recording) -> Result<PathBuf, Failure> {
    let path = folder.join(file_name(&recording.instance, recording.execution));
    let failed = |error: io::Error| Failure::error(format!("'{}' cannot be written: {error}", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) => is_of(&text, recording).map_err(|whose| {
            Failure::error(format!(
                "'{}' would be overwritten, and {whose}: choose another folder",
                path.display()
            ))
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let text = serde_json::to_string(recording).map_err(|error| failed(error.into()))?;
    // A reader never sees a part of it.
    let part = folder.join(format!(".{}.part", ambient::unique()));
    fs::write(&part, text + "\n")
        .and_then(|()| fs::rename(&part, &path))
        .map_err(|error| {
            // What is left of it has a name that nobody reads.
            fs::remove_file(&part).unwrap_or_default();
            failed(error)
        })?;
    Ok(path)
}

/// Whether a file holds the same execution; else, what it holds.
fn is_of(text: &str, recording: &Recording) -> Result<(), String> {
    let found = Recording::parse(text).map_err(|error| error.to_string())?;
    match found.instance == recording.instance && found.execution == recording.execution {
        true => Ok(()),
        false => Err(format!(
            "it holds instance '{}', execution {}",
            found.instance, found.execution
        )),
    }
}

/// The files of a folder, by name.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |error: io::Error| Failure::error(format!("the folder '{}' cannot be read: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension() == Some(OsStr::new("json")) {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Failure::error(format!(
            "the folder '{}' has no saved histories (*.json)",
            folder.display()
        )));
    }
    files.sort();
    Ok(files)
}

/// Reads a file, or says why it holds no history.
pub(super) fn load(file: &Path) -> Result<Recording, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("it cannot be read: {error}"))?;
    Recording::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_id_has_a_file_name_of_its_own() {
        let long = "x".repeat(2_048);
        let ids = [
            "order-7",
            "Order_7",
            "a/b",
            "a%2Fb",
            "..",
            ".",
            "../../etc/passwd",
            "日本 \u{1F600}",
            "a\\b",
            "\u{0}",
            "order-7.1",
            &long,
            &format!("{long}y"),
            "con:1",
        ];
        let names: Vec<String> = ids.iter().map(|id| file_name(id, 1)).collect();
        for name in &names {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.%~".contains(c);
            assert!(
                name.chars().all(plain) && name.len() <= 255 && !name.starts_with('.'),
                "{name}"
            );
        }
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), ids.len(), "{names:?}");
        assert_eq!(names[0], "order-7.1.json");
        assert_eq!(file_name("order-7", 12), "order-7.12.json");
        assert_eq!(names[2], "a%2Fb.1.json");
    }
}
