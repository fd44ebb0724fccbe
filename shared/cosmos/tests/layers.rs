//! The order of the modules: each uses only layers that `lib.rs` declares before its own.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The layer of each module: the number of its group of `mod` lines in `lib.rs`.
fn layers(source: &str) -> HashMap<&str, usize> {
    let groups = source.split("\n\n").filter(|group| group.contains("\nmod "));
    let modules = groups.enumerate().flat_map(|(layer, group)| {
        let names = group
            .lines()
            .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        names.map(move |name| (name, layer))
    });
    modules.collect()
}

/// The modules that the code of a file names.
fn used(source: &str) -> impl Iterator<Item = &str> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
        rest.split(|next: char| !next.is_alphanumeric() && next != '_')
            .next()
            .unwrap()
    })
}

#[test]
fn each_module_uses_only_lower_layers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = fs::read_to_string(folder.join("lib.rs")).unwrap();
    let layers = layers(&lib);
    assert!(layers.len() > 20, "{layers:?}");
    for (module, layer) in &layers {
        let source = fs::read_to_string(folder.join(format!("{module}.rs"))).unwrap();
        for name in used(&source) {
            let lower = layers.get(name).is_some_and(|used| used < layer);
            assert!(lower, "{module}.rs uses crate::{name}, which is in no lower layer");
        }
    }
}
