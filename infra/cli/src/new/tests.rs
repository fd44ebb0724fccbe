//! Which names and sources are accepted, and what the templates become.

use super::files::{self, File, Kind};
use super::source::{Library, Source, SourceError};
use super::*;
use clap::Parser;

/// The options, as the command line reads them.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    new: New,
}

fn source(options: &[&str], default: Result<Source, SourceError>) -> Result<Source, String> {
    let all = [&["new", "x"], options].concat();
    let parsed = Options::try_parse_from(all).map_err(|error| error.to_string())?;
    Source::of(parsed.new.source, default).map_err(|error| error.to_string())
}

fn this_checkout() -> PathBuf {
    match Source::own() {
        Ok(Source::Path(checkout)) => checkout,
        other => panic!("the tests run in a checkout: {other:?}"),
    }
}

fn git() -> Source {
    source(&["--git", "https://example.com/d.git"], Source::own()).unwrap()
}

#[test]
fn ordinary_names_are_names() {
    for name in ["greeter", "g", "order-flow-2", "Greeter", "tests", &"a".repeat(50)] {
        assert_eq!(name::check(name), Ok(()), "{name}");
    }
}

#[test]
fn other_names_are_refused_with_advice() {
    for (name, why) in [
        ("", "must begin with a letter"),
        ("1st", "like st"),
        ("-x", "like x"),
        ("my_app", "like my-app"),
        ("my app", "like my-app"),
        ("gr\u{e9}eter", "like gr-eter"),
        ("a\u{1b}[2Jb", r"a\u{1b}[2Jb"),
        (&"a".repeat(51), "at most 50"),
        ("fn", "a keyword of Rust"),
        ("Self", "a keyword of Rust"),
        ("async", "a keyword of Rust"),
        ("test", "a crate that comes with Rust"),
        ("proc-macro", "a crate that comes with Rust"),
        ("con", "a device"),
    ] {
        let error = name::check(name).unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn each_source_is_a_form_of_dependency() {
    let checkout = this_checkout();
    let beside = checkout.parent().unwrap().join("greeter");
    let folder = checkout.file_name().unwrap().to_str().unwrap();
    let path = format!("path = \"../{folder}/shared/host\"");
    let install = format!("--debug --path ../{folder}/infra/cli");
    let version = "version = \"0.1\"";
    let with_rev = ["--git", "https://example.com/d.git", "--rev", "1a2b"];
    for (options, dependency, install) in [
        (&[][..], path.as_str(), install.as_str()),
        (&["--path", checkout.to_str().unwrap()], &path, &install),
        (
            &with_rev[..2],
            "git = \"https://example.com/d.git\"",
            "--git https://example.com/d.git duroxide-lambda-cli",
        ),
        (
            &with_rev,
            "git = \"https://example.com/d.git\", rev = \"1a2b\"",
            "--git https://example.com/d.git --rev 1a2b duroxide-lambda-cli",
        ),
        (&["--published", "0.1"], version, "duroxide-lambda-cli --version '^0.1'"),
        (
            &["--published", "0.1.2"],
            "version = \"0.1.2\"",
            "duroxide-lambda-cli --version 0.1.2",
        ),
    ] {
        let source = source(options, Source::own()).unwrap();
        let host = source.dependency(Library::Host, &beside).unwrap();
        assert_eq!(host, format!("{{ {dependency} }}"));
        let api = source.dependency(Library::Api, &beside).unwrap();
        let lambda = "default-features = false, features = [\"lambda\"]";
        let dependency = dependency.replace("shared/host", "shared/api");
        assert_eq!(api, format!("{{ {dependency}, {lambda} }}"));
        assert_eq!(source.install(&beside).unwrap(), install);
    }
}

#[test]
fn a_program_that_cargo_has_installed_knows_its_release_or_asks_for_the_repository() {
    let from = |folder: &str| Source::with(Path::new(folder));
    let release = Source::Published(env!("CARGO_PKG_VERSION").to_owned());
    let registry = "/home/ada/.cargo/registry/src/index/duroxide-lambda-cli-0.1.0";
    assert_eq!(from(registry).unwrap(), release);
    let git = "/home/ada/.cargo/git/checkouts/duroxide-lambda-1a2b/3c4d/infra/cli";
    assert!(matches!(from(git), Err(SourceError::FromGit)));
    assert!(matches!(from("/nowhere/infra/cli"), Err(SourceError::NoCheckout)));
}

#[test]
fn a_path_is_absolute_where_only_the_root_is_shared_and_escaped_where_it_must_be() {
    let source = Source::Path("/my \"files\"/d".into());
    let dependency = |root: &str| source.dependency(Library::Host, Path::new(root)).unwrap();
    let escaped = r#"{ path = "/my \"files\"/d/shared/host" }"#;
    assert_eq!(dependency("/tmp/greeter"), escaped);
    let parsed: toml::Table = toml::from_str(&format!("d = {escaped}")).unwrap();
    assert_eq!(parsed["d"]["path"].as_str(), Some("/my \"files\"/d/shared/host"));
    assert_eq!(dependency("/my \"files\"/a/b"), r#"{ path = "../../d/shared/host" }"#);
    let install = source.install(Path::new("/tmp/greeter")).unwrap();
    assert_eq!(install, "--debug --path '/my \"files\"/d/infra/cli'");
}

#[test]
fn a_wrong_source_is_refused_with_advice() {
    for (options, why) in [
        (&[][..], "--path DIR or --git URL"),
        (&["--path", "/nowhere"], "no checkout of duroxide-lambda"),
        (&["--git", "https://a b"], "no address of a repository"),
        (&["--git", "greeter"], "no address of a repository"),
        (&["--git", "https://example.com/d", "--rev", ""], "no commit"),
        (&["--published", "newest"], "no version: write it like 0.1"),
        (&["--rev", "1a2b"], "--git <URL>"),
        (
            &["--path", ".", "--git", "https://example.com/d"],
            "cannot be used with",
        ),
        (
            &["--published", "0.1", "--git", "https://example.com/d"],
            "cannot be used with",
        ),
    ] {
        let error = source(options, Err(SourceError::NoCheckout)).unwrap_err();
        assert!(error.contains(why), "{options:?}: {error}");
    }
}

#[test]
fn the_project_file_and_the_manifests_can_be_read() {
    for kind in [Kind::Minimal, Kind::Full] {
        for File { path, text } in files::of(kind, "greeter", &git(), Path::new("/p")).unwrap() {
            if path.extension().is_some_and(|extension| extension == "toml") {
                let parsed: Result<toml::Table, _> = toml::from_str(&text);
                parsed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
            if path == Path::new(crate::project::FILE) {
                let project = crate::project::Project::parse(Path::new("/p"), &text).unwrap();
                assert_eq!(project.name, "greeter");
                assert_eq!(project.functions, Default::default());
                assert_eq!(project.deploy.overlay, Some("/p/deploy/overlay.yaml".into()));
            }
        }
    }
}

#[test]
fn no_field_of_a_template_is_left_over() {
    for kind in [Kind::Minimal, Kind::Full] {
        for File { path, text } in files::of(kind, "greeter", &git(), Path::new("/p")).unwrap() {
            // GitHub's own fields have a space.
            let left = text.split("{{").skip(1).find(|rest| !rest.starts_with(' '));
            assert_eq!(left, None, "{}", path.display());
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", path.display());
        }
    }
}

#[test]
fn an_error_in_the_middle_leaves_nothing() {
    let place = std::env::temp_dir().join(format!("new-{}", std::process::id()));
    let file = |path: &str| File {
        path: path.into(),
        text: "x".to_owned(),
    };
    // A file is where the last one needs a folder.
    let files = [file("a"), file("b/c"), file("b/d/e"), file("b/c/d")];
    let existing = place.join("existing");
    fs::create_dir_all(existing.join(".git")).unwrap();
    let errors =
        [place.join("new"), existing.clone()].map(|root| write::create(&root, &files).unwrap_err().to_string());
    let entries = |path: &Path| fs::read_dir(path).unwrap().count();
    let left = (entries(&place), entries(&existing));
    fs::remove_dir_all(&place).unwrap();
    assert_eq!(left, (1, 1), "only the directory that existed, with what it had");
    for error in errors {
        assert!(error.contains("nothing is left of the project"), "{error}");
    }
}
