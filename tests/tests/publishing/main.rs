//! Whether the crates of this project could be published as they are (`docs/releasing.md`).
//!
//! | module | what it shows |
//! |---|---|
//! | `metadata` | what crates.io and docs.rs need is there; dependencies are published before what needs them |
//! | `oldest_rust` | the promised Rust version is compiled by CI, and suffices for every dependency |
//! | `listing` | the public items are those of the saved listings, `public-api.txt` in the folder of each library |
//! | `features` | each feature compiles alone, and none, and all |
//! | `packages` | `cargo package` makes small packages with all that their sources include |
//!
//! `project` has what they share: the order of publication, cargo, and what it knows of the workspace.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod features;
mod listing;
mod metadata;
mod oldest_rust;
mod packages;
mod project;
