//! The guide's commands that rotate the key, with programs in the place of `az`, `aws` and `duroxide-lambda`.
//!
//! A key may be regenerated only when the other one is in the secret: everything else is an outage.

use crate::template::root;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use tests::real::target_dir;

/// Answers the key, and writes down which one is regenerated.
const AZ: &str = "case \"$*\" in
*'keys list'*secondaryMasterKey*) [[ $FAILS == az ]] || echo a-secondary-key ;;
*'keys regenerate'*) echo \"regenerate ${*: -1}\" >> \"$CALLS\" ;;
*) exit 9 ;;
esac";
/// Writes down what is put into the secret, and who may read the file.
const AWS: &str = "file=${*: -1}; file=${file#file://}
echo \"put $(stat -c %a \"$file\") $(cat \"$file\")\" >> \"$CALLS\"
[[ $FAILS != aws ]]";
const DEPLOY: &str = "[[ $FAILS == az ]] || echo \"$1 with $COSMOS_KEY\" >> \"$CALLS\"
[[ -n $COSMOS_KEY && $FAILS != aws ]]";

/// The shell of a section of the guide, block by block.
fn blocks(section: &str) -> Result<Vec<String>> {
    let guide = fs::read_to_string(root().join("docs/deployment.md"))?;
    let from = guide.split_once(section).context("the guide has the section")?.1;
    let section = from.split("\n## ").next().unwrap_or(from);
    let blocks = section.split("```sh\n").skip(1);
    Ok(blocks
        .filter_map(|block| Some(block.split_once("```")?.0.to_owned()))
        .collect())
}

/// What one block does when one of its programs fails.
fn rotate(block: usize, fails: &str) -> Result<(bool, Vec<String>)> {
    let directory: PathBuf = target_dir()?
        .join("tmp")
        .join(format!("rotate-{block}-{fails}-{}", std::process::id()));
    let temporary = directory.join("temporary");
    fs::create_dir_all(&temporary)?;
    for (name, body) in [("az", AZ), ("aws", AWS), ("duroxide-lambda", DEPLOY)] {
        let path = directory.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    let calls = directory.join("calls");
    fs::write(&calls, "")?;
    let output = Command::new("bash")
        .args(["-c", &blocks("## Rotate the key")?[block]])
        .current_dir(&directory)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", directory.display()))
        .env("CALLS", &calls)
        .env("FAILS", fails)
        .env("TMPDIR", &temporary)
        .output()?;
    let called = fs::read_to_string(&calls)?.lines().map(str::to_owned).collect();
    assert_eq!(fs::read_dir(&temporary)?.count(), 0, "no file with a key is left");
    fs::remove_dir_all(&directory)?;
    Ok((output.status.success(), called))
}

#[test]
fn a_key_is_regenerated_only_after_the_other_is_in_the_secret() -> Result<()> {
    assert_eq!(blocks("## Rotate the key")?.len(), 2);
    let regenerated = "regenerate primary";
    for (block, written) in [(0, "deploy with a-secondary-key"), (1, "put 600 a-secondary-key")] {
        assert_eq!(rotate(block, "none")?, (true, vec![written.into(), regenerated.into()]));
        assert_eq!(rotate(block, "aws")?, (false, vec![written.into()]));
        assert_eq!(rotate(block, "az")?, (false, Vec::new()));
    }
    Ok(())
}
