//! Parsing of the command line, and its help.

use super::*;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser};

#[derive(Debug, Parser)]
#[command(name = "duroxide-lambda")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

fn parse(line: &[&str]) -> Result<Command, ErrorKind> {
    let words = std::iter::once(&"duroxide-lambda").chain(line);
    Line::try_parse_from(words)
        .map(|line| line.command)
        .map_err(|error| error.kind())
}

#[test]
fn each_command_has_examples_and_exit_codes_in_its_help() {
    Line::command().debug_assert();
    for command in Line::command().get_subcommands_mut() {
        let help = command.render_long_help().to_string();
        let name = command.get_name();
        assert!(
            help.contains("Example") && help.contains(&format!("{} {name}", program())),
            "{help}"
        );
        assert!(help.contains("0: done") && help.contains("--json"), "{help}");
    }
}

#[test]
fn unusual_ids_and_texts_can_be_typed() {
    for line in [
        &["status", "--", "-7"][..],
        &["status", "a/b\\c ø \u{1b}"],
        &["raise", "i", "e", "-5"],
        &["raise", "i", "e", "-"],
        &["start", "o", "--id", "-7", "--input", "-5"],
        &["start", "o", "--input=--wait"],
        &["start", "o", "--wait"],
        &["start", "o", "--wait", "2.5", "--json"],
        &[
            "start",
            "o",
            "--version",
            "1.0.0",
            "--url",
            "http://localhost:1",
            "--tag",
            "a=b",
        ],
        &["watch", "i", "--timeout", "5", "--profile", "p"],
        &[
            "list",
            "--tag",
            "a=b",
            "--tag",
            "c=d",
            "--prefix",
            "-7",
            "--created-from",
            "2026-01-01T00:00:00Z",
        ],
        &["dead-letters"],
        &["dead-letters", "--limit", "3", "--json"],
        &["dead-letters", "list", "--limit", "3"],
        &["dead-letters", "redrive", "--json", "i", "id"],
        &["list", "--status", "continued-as-new"],
    ] {
        assert!(parse(line).is_ok(), "{line:?}: {:?}", parse(line));
    }
}

#[test]
fn invalid_arguments_are_wrong_usage() {
    for (line, kind) in [
        (&["status"][..], ErrorKind::MissingRequiredArgument),
        (&["status", ""], ErrorKind::InvalidValue),
        (&["start", "o", "--id", ""], ErrorKind::InvalidValue),
        (&["status", "-7"], ErrorKind::UnknownArgument),
        (&["wait", "i", "--timeout", "soon"], ErrorKind::ValueValidation),
        (&["list", "--status", "happy"], ErrorKind::InvalidValue),
        (&["list", "--limit", "0"], ErrorKind::ValueValidation),
        (&["list", "--tag", "a"], ErrorKind::ValueValidation),
        (&["list", "--created-to", "now"], ErrorKind::ValueValidation),
        (
            &["list", "--url", "http://localhost:1", "--profile", "p"],
            ErrorKind::ArgumentConflict,
        ),
        (&["list", "--token", "a b"], ErrorKind::ValueValidation),
        (&["history", "i", "--execution", "0"], ErrorKind::ValueValidation),
        (&["dead-letters", "show", "i"], ErrorKind::MissingRequiredArgument),
    ] {
        assert_eq!(parse(line).unwrap_err(), kind, "{line:?}");
    }
}

#[test]
fn json_is_accepted_in_every_position() {
    assert!(
        parse(&["dead-letters", "show", "i", "id", "--json"])
            .unwrap()
            .common()
            .json
    );
    assert!(parse(&["dead-letters", "--json"]).unwrap().common().json);
    assert!(!parse(&["list"]).unwrap().common().json);
}

#[test]
fn the_client_knows_neither_the_store_nor_the_queues() {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/client")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            // The formats of the replay gate, which an orchestrator's binary shares: types without I/O.
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.replace("duroxide_lambda::replay::", "");
            // What doctor compares with: names, numbers and types of the canary and of the checks, without I/O.
            let text = text
                .replace("duroxide_lambda::canary::", "")
                .replace("duroxide_lambda::doctor::", "");
            // A call that a binary must make, named in the help and in an error.
            let text = text.replace("duroxide_lambda::orchestrator", "");
            for foreign in [
                "duroxide_cosmos",
                "cosmos::",
                "duroxide_lambda::",
                "local_cloud",
                "cosmos_emulator",
            ] {
                assert!(!text.contains(foreign), "{} uses {foreign}", path.display());
            }
            files += 1;
        }
    }
    assert!(files > 15, "{files}");
}
