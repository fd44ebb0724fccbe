//! Compresses each file of `dashboard/`, and writes `$OUT_DIR/dashboard.rs`, which `src/dashboard.rs` includes.
//!
//! All of this happens here, so that the API compresses and hashes nothing when it starts. The version is a digest of all files: it is
//! a part of their URLs, so that a browser may keep them for ever. In `index.html`, `__VERSION__` becomes the version, and the line
//! [`PRELOADS`] one link for each module that `main.js` imports, directly or not: the browser then loads them side by side.

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const PAGE: &str = "index.html";
const MAIN: &str = "main.js";
const VERSION: &str = "__VERSION__";
const PRELOADS: &str = "<!-- modulepreload -->";
/// Files with other extensions are not served.
const MEDIA_TYPES: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
];
/// How the names of tests end: only developers need them.
const TEST: &str = ".test.js";
/// Only the type checker reads it: no module imports it when it runs.
const TYPES: &str = "core/types.js";

/// Texts by their path with forward slashes, in the order of the paths.
type Files = BTreeMap<String, String>;

pub(crate) fn embed() -> Result<(), Box<dyn Error>> {
    let from = Path::new("dashboard");
    println!("cargo::rerun-if-changed={}", from.display());
    let mut files = Files::new();
    gather(from, "", &mut files)?;
    let version = version_of(&files);
    let page = files
        .remove(PAGE)
        .ok_or("shared/api/dashboard/index.html is missing: it is the page of the dashboard")?;
    let page = finished_page(&page, &version, &files)?;

    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let mut source = format!("pub(crate) const VERSION: &str = {version:?};\n");
    writeln!(
        source,
        "pub(crate) static PAGE: Asset = {};",
        embedded(&out, 0, PAGE, &page)?
    )?;
    source.push_str("static FILES: &[Asset] = &[\n");
    for (number, (path, text)) in files.iter().enumerate() {
        writeln!(source, "    {},", embedded(&out, number + 1, path, text)?)?;
    }
    source.push_str("];\n");
    fs::write(out.join("dashboard.rs"), source)?;
    Ok(())
}

/// The files of a folder and of those below it.
fn gather(folder: &Path, prefix: &str, files: &mut Files) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| "a file's name is not UTF-8")?;
        let path = format!("{prefix}{name}");
        if name.starts_with('.') || name == "node_modules" {
            continue;
        }
        if entry.file_type()?.is_dir() {
            gather(&entry.path(), &format!("{path}/"), files)?;
        } else if media_type(&name).is_some() && !name.ends_with(TEST) && path != TYPES {
            files.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

fn media_type(path: &str) -> Option<&'static str> {
    let (_, extension) = path.rsplit_once('.')?;
    let found = MEDIA_TYPES.iter().find(|(name, _)| *name == extension);
    found.map(|(_, media_type)| *media_type)
}

fn version_of(files: &Files) -> String {
    let mut digest = Sha256::new();
    for (path, text) in files {
        // The lengths keep two files apart.
        digest.update(format!("{} {path} {}\n", path.len(), text.len()));
        digest.update(text);
    }
    hex(&digest.finalize()[..6])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn finished_page(page: &str, version: &str, files: &Files) -> Result<String, Box<dyn Error>> {
    for marker in [VERSION, PRELOADS] {
        if !page.contains(marker) {
            return Err(format!("shared/api/dashboard/index.html has no {marker}").into());
        }
    }
    let links = imported(files)
        .into_iter()
        .map(|path| format!("<link rel=\"modulepreload\" href=\"dashboard/{version}/{path}\">"));
    let links: Vec<String> = links.collect();
    Ok(page.replace(VERSION, version).replace(PRELOADS, &links.join("\n")))
}

/// The modules that the main one imports, directly or not. Those that are loaded on demand (`import()`) are not among them.
fn imported(files: &Files) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![MAIN.to_owned()];
    while let Some(module) = left.pop() {
        let text = files.get(&module).map(String::as_str).unwrap_or_default();
        for target in text.lines().filter_map(target_of) {
            let path = resolved(&module, target);
            if files.contains_key(&path) && path != MAIN && found.insert(path.clone()) {
                left.push(path);
            }
        }
    }
    found
}

/// What a line imports. Comments, which import types, begin otherwise; a list of names may have ended with this line.
fn target_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = match line
        .strip_prefix("import ")
        .filter(|rest| rest.starts_with(['"', '\'']))
    {
        Some(rest) => rest,
        None if ["import ", "export ", "}"].iter().any(|begin| line.starts_with(begin)) => {
            line.rsplit_once(" from ")?.1
        }
        None => return None,
    };
    let quote = rest.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    rest[1..].split(quote).next()
}

/// The path of a module that another one names.
fn resolved(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Writes a file, compressed, and returns the expression that includes it.
fn embedded(out: &Path, number: usize, path: &str, text: &str) -> Result<String, Box<dyn Error>> {
    let name = format!("dashboard-{number}.gz");
    // Neither a time nor a name: equal files are equal bytes.
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(text.as_bytes())?;
    fs::write(out.join(&name), gzip.finish()?)?;
    let media_type = media_type(path).ok_or("a file without a media type")?;
    let etag = format!("W/\"{}\"", hex(&Sha256::digest(text)[..8]));
    Ok(format!(
        "Asset {{ path: {path:?}, media_type: {media_type:?}, etag: {etag:?}, gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}\")) }}"
    ))
}
