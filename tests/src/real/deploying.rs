//! `duroxide-lambda deploy` without an account: programs in the place of `cargo-lambda`, `sam` and `aws`, and a project.
//!
//! | | `sam`, `aws` | for |
//! |---|---|---|
//! | [`Programs::recorded`] | write down how they were called, and answer from files | what the command decides |
//! | [`Programs::on_moto`] | transform the template and make the stack on moto | what is then there |
//!
//! `cargo` is the real one; `cargo lambda build` makes archives of the files in a directory ([`Programs::binaries`]), or of scripts.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};
use cosmos_emulator::Listener;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::build::{build, target_dir};
use super::moto::Moto;
use super::venv::Venv;

const BASH: &str = "/usr/bin/env bash";

/// Answers what the files `stack`, `stacks` and `function` say; other calls are written down.
const AWS: &str = r#"here=$(dirname "$0")
case "$*" in
*describe-stacks*--stack-name*)
  [[ -f $here/stack ]] || { echo 'An error occurred (ValidationError): Stack with id flow does not exist' >&2; exit 254; }
  printf '{"Stacks": [%s]}' "$(cat "$here/stack")" ;;
*describe-stacks*) printf '{"Stacks": [%s]}' "$(cat "$here/stacks" 2>/dev/null)" ;;
*get-function-configuration*) cat "$here/function" ;;
*) echo "aws $*" >> "$CALLS" ;;
esac"#;

/// Keeps settings and template, and makes a stack if there is none.
const SAM: &str = r#"here=$(dirname "$0")
echo "sam $*" >> "$CALLS"
while [[ $# -gt 0 ]]; do
  case $1 in
  --config-file) stat -c %a "$(dirname "$2")" >> "$CALLS"; cp "$2" "$here/settings.toml" ;;
  --template-file) cp "$2" "$here/template.json" ;;
  esac
  shift
done
[[ -f $here/stack ]] || echo '{"StackName": "flow", "StackStatus": "CREATE_COMPLETE", "Parameters": [{"ParameterKey": "CosmosContainer", "ParameterValue": "workflows"}]}' > "$here/stack""#;

/// A directory of programs and what they wrote. Removed with this value.
#[derive(Debug)]
pub struct Programs {
    directory: PathBuf,
    env: Vec<(String, String)>,
}

impl Programs {
    /// Programs that write down how they were called.
    pub fn recorded(name: &str) -> Result<Programs> {
        let programs = Programs::with(name, Vec::new())?;
        programs.program("aws", BASH, AWS)?;
        programs.program("sam", BASH, SAM)?;
        Ok(programs)
    }

    /// Programs that deploy to moto, which [`Moto::deployable`] has started.
    pub async fn on_moto(name: &str, moto: &Moto) -> Result<Programs> {
        let python = Venv::sam().await?.python();
        let programs = Programs::with(name, moto.env())?;
        for (name, body) in [
            ("aws", include_str!("programs/aws.py")),
            ("sam", include_str!("programs/sam.py")),
        ] {
            programs.program(name, &python.display().to_string(), body)?;
        }
        Ok(programs)
    }

    fn with(name: &str, env: Vec<(String, String)>) -> Result<Programs> {
        let directory = target_dir()?
            .join("tmp")
            .join(format!("deploy-{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("binaries"))?;
        let programs = Programs { directory, env };
        let python = "/usr/bin/env python3";
        programs.program("cargo-lambda", python, include_str!("programs/cargo_lambda.py"))?;
        Ok(programs)
    }

    /// Puts a program here.
    pub fn program(&self, name: &str, interpreter: &str, body: &str) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, format!("#!{interpreter}\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// A file here.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where `cargo lambda build` finds the binaries that it puts into archives, by name.
    pub fn binaries(&self) -> PathBuf {
        self.directory.join("binaries")
    }

    /// A project with four functions, and this at the end of its `duroxide-lambda.toml`.
    pub fn project(&self, name: &str, more: &str) -> Result<PathBuf> {
        let root = self.directory.join(name);
        fs::create_dir_all(root.join("src/bin"))?;
        let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n");
        fs::write(root.join("Cargo.toml"), manifest)?;
        for function in ["orchestrator", "worker", "maintenance", "api", "gpu-worker"] {
            fs::write(root.join(format!("src/bin/{function}.rs")), "fn main() {}\n")?;
        }
        fs::write(root.join("duroxide-lambda.toml"), format!("name = \"{name}\"\n{more}"))?;
        Ok(root)
    }

    /// `duroxide-lambda deploy` in a project, with these arguments and variables besides what the programs need.
    pub async fn deploy(&self, project: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Result<Deployed> {
        let calls = self.directory.join("calls");
        fs::write(&calls, "")?;
        let mut command = Command::new(command_line().await?);
        command.arg("deploy").args(arguments).current_dir(project).env_clear();
        let inherited = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "TMPDIR"];
        command.envs(
            inherited
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command
            .env("PATH", self.path()?)
            .env("CALLS", &calls)
            .env("BINARIES", self.binaries())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .envs(env.iter().copied());
        // The store may be in this process: its runtime must go on meanwhile.
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let called = fs::read_to_string(&calls)?;
        Ok(Deployed {
            output,
            calls: called.lines().map(str::to_owned).collect(),
        })
    }

    fn path(&self) -> Result<OsString> {
        let path = std::env::var_os("PATH").context("there is a PATH")?;
        let all = std::iter::once(self.directory.clone()).chain(std::env::split_paths(&path));
        Ok(std::env::join_paths(all)?)
    }

    /// The stack that [`Programs::recorded`] describes, with these parameters and outputs. It has a container in any case.
    pub fn describe(&self, status: &str, parameters: &[(&str, &str)], outputs: &[(&str, &str)]) -> Result<()> {
        let mut all = vec![("CosmosContainer", "workflows")];
        all.retain(|(name, _)| parameters.iter().all(|(given, _)| given != name));
        all.extend(parameters);
        fs::write(self.file("stack"), stack("flow", status, &all, outputs).to_string())?;
        Ok(())
    }
}

/// The command line, built once per test process.
async fn command_line() -> Result<&'static Path> {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    let built = BUILT.get_or_try_init(async || {
        let [built] = build(["duroxide-lambda"]).await?;
        anyhow::Ok(built)
    });
    Ok(built.await?)
}

/// A stack as CloudFormation describes it.
pub fn stack(name: &str, status: &str, parameters: &[(&str, &str)], outputs: &[(&str, &str)]) -> Value {
    let pairs = |of: &[(&str, &str)], kind: &str| -> Vec<Value> {
        let pair = |(name, value): &(&str, &str)| json!({format!("{kind}Key"): name, format!("{kind}Value"): value});
        of.iter().map(pair).collect()
    };
    json!({"StackName": name, "StackStatus": status,
           "Parameters": pairs(parameters, "Parameter"), "Outputs": pairs(outputs, "Output")})
}

/// The variables that name a store and its key.
pub fn store(listener: &Listener) -> [(&'static str, String); 2] {
    [("COSMOS_ENDPOINT", listener.endpoint()), ("COSMOS_KEY", listener.key())]
}

impl Drop for Programs {
    fn drop(&mut self) {
        // It lies below the target directory: what is left does no harm.
        fs::remove_dir_all(&self.directory).ok();
    }
}

/// What the command did.
#[derive(Debug)]
pub struct Deployed {
    /// Its exit code and what it said.
    pub output: Output,
    /// The calls of the programs.
    pub calls: Vec<String>,
}

impl Deployed {
    /// Whether it succeeded.
    pub fn is_done(&self) -> bool {
        self.output.status.success()
    }

    /// What it printed, to both.
    pub fn said(&self) -> String {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        text(&self.output.stdout) + &text(&self.output.stderr)
    }
}
