//! Checks the table of layers in `lib.rs` against the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layer of each module, from the table.
fn layers() -> BTreeMap<String, u32> {
    let rows = include_str!("lib.rs").lines().filter_map(|line| {
        let (layer, rest) = line.strip_prefix("//! | ")?.split_once(" | ")?;
        Some((layer.parse().ok()?, rest.split(" | ").next()?))
    });
    rows.flat_map(|(layer, modules): (u32, &str)| {
        let names = modules.split(", ").map(|name| name.trim_matches('`').to_owned());
        names.map(move |name| (name, layer))
    })
    .collect()
}

/// The path and the text of each source file of a module.
fn files(path: &Path, found: &mut Vec<(String, String)>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a readable folder");
        entries.for_each(|entry| files(&entry.expect("a readable entry").path(), found));
    } else {
        let text = fs::read_to_string(path).expect("a readable file");
        found.push((path.display().to_string(), text));
    }
}

#[test]
fn modules_use_lower_layers_only() {
    let layers = layers();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = BTreeSet::new();
    for entry in fs::read_dir(&src).expect("the sources") {
        let path = entry.expect("a readable entry").path();
        let module = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if module == "lib" || module == "layers" {
            continue;
        }
        let layer = layers.get(&module);
        let layer = *layer.unwrap_or_else(|| panic!("`{module}` is in no layer: add it to the table in lib.rs"));
        let mut sources = Vec::new();
        files(&path, &mut sources);
        for (file, text) in sources {
            for used in text.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if let Some(below) = layers.get(&used).filter(|_| used != module) {
                    assert!(
                        *below < layer,
                        "{file}: `{module}` (layer {layer}) uses `{used}` (layer {below})"
                    );
                }
            }
            assert!(
                module == "store" || !text.contains("impl Store"),
                "{file}: pass `&Store` to a function"
            );
            assert!(
                module == "provider" || !text.contains("impl CosmosProvider"),
                "{file}: the public face is in `provider`"
            );
        }
        modules.insert(module);
    }
    assert_eq!(modules, layers.into_keys().collect(), "the table names every module");
}
