//! What was deployed from this project, so that it can be deployed again: `.duroxide/deploy/STACK/NUMBER/`.
//!
//! | file | |
//! |---|---|
//! | `NUMBER/template.json`, `NUMBER/*.zip` | what `sam` deploys |
//! | `NUMBER/gate` | the orchestrator for this machine, if the archives are for another |
//! | `NUMBER/deployment.json` | the parameters, without those of the store, and the deployment before it |
//! | `current` | the number of the deployment that runs |
//!
//! A directory without `deployment.json` is of a deployment that did not succeed. The newest few are kept. No file holds a secret.

use super::template::archive_of;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many deployments are kept.
const KEPT: usize = 5;
const CURRENT: &str = "current";
const ABOUT: &str = "deployment.json";
const TEMPLATE: &str = "template.json";
const GATE: &str = "gate";

/// The deployments of one stack.
#[derive(Clone, Debug)]
pub(super) struct Records {
    folder: PathBuf,
}

/// One deployment.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    folder: PathBuf,
}

/// What is known of a deployment that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct About {
    pub(super) architecture: String,
    /// The binary of the orchestrator.
    pub(super) orchestrator: String,
    /// All parameters but those of the store.
    pub(super) parameters: BTreeMap<String, String>,
    /// The deployment that ran before it, if it was made from here.
    pub(super) previous: Option<u64>,
    /// Whether the stack then ran something that was not deployed from here.
    #[serde(default)]
    pub(super) followed_other: bool,
}

impl Records {
    pub(super) fn of(root: &Path, stack: &str) -> Records {
        Records {
            folder: root.join(".duroxide/deploy").join(stack),
        }
    }

    /// A new deployment, with its directory.
    pub(super) fn begin(&self) -> anyhow::Result<Record> {
        let number = self.numbers()?.last().copied().unwrap_or(0) + 1;
        let record = self.record(number);
        fs::create_dir_all(&record.folder).with_context(|| cannot_be_written(&record.folder))?;
        // The archives are no sources.
        let ignore = self.folder.with_file_name(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").with_context(|| cannot_be_written(&ignore))?;
        }
        Ok(record)
    }

    /// The number of the deployment that runs, as far as this project knows.
    pub(super) fn current(&self) -> anyhow::Result<Option<u64>> {
        let file = self.folder.join(CURRENT);
        match fs::read_to_string(&file) {
            Ok(text) => match text.trim().parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => bail!("{} must hold a number: delete it, and deploy again", file.display()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{} cannot be read", file.display())),
        }
    }

    /// Notes that a deployment runs now, and removes old ones.
    pub(super) fn succeed(&self, record: &Record, about: &About) -> anyhow::Result<()> {
        let file = record.folder.join(ABOUT);
        let text = serde_json::to_string_pretty(about).context("a deployment cannot be written as JSON")?;
        fs::write(&file, text + "\n").with_context(|| cannot_be_written(&file))?;
        self.run_now(record.number)?;
        // Earlier ones that did not succeed are of no use any more; a later one may be under way.
        let (useful, failed): (Vec<u64>, Vec<u64>) = self
            .numbers()?
            .into_iter()
            .partition(|number| self.record(*number).folder.join(ABOUT).exists());
        let old = useful
            .iter()
            .rev()
            .skip(KEPT)
            .filter(|number| **number != record.number && Some(**number) != about.previous);
        let failed = failed.iter().filter(|number| **number < record.number);
        for number in failed.chain(old) {
            let folder = self.record(*number).folder;
            fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
        }
        Ok(())
    }

    /// Notes that this deployment runs now.
    pub(super) fn run_now(&self, number: u64) -> anyhow::Result<()> {
        let file = self.folder.join(CURRENT);
        fs::write(&file, format!("{number}\n")).with_context(|| cannot_be_written(&file))
    }

    /// Forgets which deployment runs: none does.
    pub(super) fn none_runs(&self) -> anyhow::Result<()> {
        let file = self.folder.join(CURRENT);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} cannot be removed", file.display()))
            }
            _ => Ok(()),
        }
    }

    /// The deployment before the one that runs.
    pub(super) fn previous(&self) -> anyhow::Result<(Record, About)> {
        let elsewhere = "check out the earlier commit and deploy it";
        let Some(current) = self.current()? else {
            bail!(
                "{} has no deployment to go back from: {elsewhere}",
                self.folder.display()
            );
        };
        let about = self.record(current).about()?;
        let Some(previous) = about.previous else {
            if about.followed_other {
                bail!(
                    "there is nothing to go back to: before deployment {current}, the stack ran other code than the last deployment of this \
                     directory, because it was deployed from elsewhere or a deployment was interrupted; {elsewhere}"
                );
            }
            bail!("deployment {current} is the first that was made from here: {elsewhere}");
        };
        let record = self.record(previous);
        if !record.folder.join(ABOUT).exists() {
            bail!(
                "deployment {previous} is not kept any more in {}: {elsewhere}",
                self.folder.display()
            );
        }
        let about = record.about()?;
        Ok((record, about))
    }

    pub(super) fn record(&self, number: u64) -> Record {
        Record {
            number,
            folder: self.folder.join(number.to_string()),
        }
    }

    fn numbers(&self) -> anyhow::Result<BTreeSet<u64>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(error).with_context(|| format!("{} cannot be read", self.folder.display())),
        };
        let mut numbers = BTreeSet::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("{} cannot be read", self.folder.display()))?;
            numbers.extend(entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        Ok(numbers)
    }
}

impl Record {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn archive(&self, binary: &str) -> PathBuf {
        self.folder.join(archive_of(binary))
    }

    pub(super) fn template(&self) -> PathBuf {
        self.folder.join(TEMPLATE)
    }

    /// The orchestrator for this machine.
    pub(super) fn gate(&self) -> PathBuf {
        self.folder.join(GATE)
    }

    pub(super) fn about(&self) -> anyhow::Result<About> {
        let file = self.folder.join(ABOUT);
        let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} cannot be read", file.display()))
    }
}

fn cannot_be_written(path: &Path) -> String {
    format!("{} cannot be written", path.display())
}

/// A directory that only its owner can read, and that is removed with this value.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn create() -> anyhow::Result<Scratch> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = std::env::temp_dir().join(format!("duroxide-lambda-{}", crate::ambient::unique()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| cannot_be_written(&path))?;
        Ok(Scratch(path))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays readable for its owner only.
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(previous: Option<u64>) -> About {
        About {
            architecture: "arm64".to_owned(),
            orchestrator: "orchestrator".to_owned(),
            parameters: BTreeMap::new(),
            previous,
            followed_other: false,
        }
    }

    fn deployed(records: &Records) -> u64 {
        let record = records.begin().unwrap();
        let previous = records.current().unwrap();
        records.succeed(&record, &about(previous)).unwrap();
        record.number
    }

    #[test]
    fn each_rollback_goes_back_by_one_deployment_that_succeeded() {
        let scratch = Scratch::create().unwrap();
        let records = Records::of(&scratch.file("project"), "flow");
        assert!(records.previous().unwrap_err().to_string().contains("earlier commit"));
        assert_eq!(deployed(&records), 1);
        assert!(records.previous().unwrap_err().to_string().contains("is the first"));
        // One that fails leaves a directory without a description.
        records.begin().unwrap();
        assert_eq!(deployed(&records), 3);
        assert_eq!(deployed(&records), 4);
        for expected in [3, 1] {
            let (record, _) = records.previous().unwrap();
            assert_eq!(record.number, expected);
            records.run_now(record.number).unwrap();
        }
        // What is deployed after a rollback comes after what ran then.
        assert_eq!(deployed(&records), 5);
        assert_eq!(records.previous().unwrap().0.number, 1);
        // Another machine deployed in between: its deployment must not be skipped.
        let record = records.begin().unwrap();
        let after_other = About {
            followed_other: true,
            ..about(None)
        };
        records.succeed(&record, &after_other).unwrap();
        let refused = records.previous().unwrap_err().to_string();
        assert!(
            refused.contains("from elsewhere") && refused.contains("earlier commit"),
            "{refused}"
        );
        records.none_runs().unwrap();
        records.none_runs().unwrap();
        assert_eq!(records.current().unwrap(), None);
    }

    #[test]
    fn the_newest_deployments_are_kept() {
        let scratch = Scratch::create().unwrap();
        let records = Records::of(&scratch.file("project"), "flow");
        for _ in 0..7 {
            deployed(&records);
        }
        assert_eq!(records.numbers().unwrap(), BTreeSet::from([3, 4, 5, 6, 7]));
        // Failures do not push out what can be rolled back to.
        let failed: Vec<_> = (0..6).map(|_| records.begin().unwrap().number).collect();
        assert_eq!((failed.last(), deployed(&records)), (Some(&13), 14));
        assert_eq!(records.numbers().unwrap(), BTreeSet::from([4, 5, 6, 7, 14]));
        for _ in 0..4 {
            let number = records.previous().unwrap().0.number;
            records.run_now(number).unwrap();
        }
        assert!(
            records
                .previous()
                .unwrap_err()
                .to_string()
                .contains("not kept any more")
        );
    }

    #[test]
    fn what_ran_before_is_kept_however_old_and_so_is_a_deployment_under_way() {
        let scratch = Scratch::create().unwrap();
        let records = Records::of(&scratch.file("project"), "flow");
        for _ in 0..5 {
            deployed(&records);
        }
        records.run_now(1).unwrap();
        let record = records.begin().unwrap();
        let other = records.begin().unwrap();
        records.succeed(&record, &about(Some(1))).unwrap();
        assert_eq!(records.previous().unwrap().0.number, 1);
        assert!(other.folder().is_dir());
    }
}
