//! What to try first on a local cloud: commands that fit the workflows of its orchestrator.

use crate::client;
use crate::terminal::shell_word;
use crate::terminal::text::escape;
use duroxide_lambda::replay::Registered;
use std::path::Path;
use std::time::Duration;

/// The orchestration of the sample.
pub(crate) const SAMPLE: &str = "fulfil-order";
/// An order of the sample; `ID` is its id.
const SAMPLE_ORDER: &str = r#"{"id":"ID","customer":"ada","total_cents":4200,"lines":[{"sku":"teapot","quantity":1}],"parcels":[{"address":"12 Mill Lane"}]}"#;
/// How long a binary may take to say what it registers.
const ASK: Duration = Duration::from_secs(5);
/// The most orchestrations that are listed.
const LISTED: usize = 12;

/// What the orchestrator of a cloud registers.
#[derive(Debug)]
pub(crate) enum Workflows {
    /// These, at least one.
    Known(Vec<Registered>),
    /// It could not be asked: it is a binary of another language, or of an older release.
    Unknown,
}

/// Asks an orchestrator binary, which is started without access to the store, what it registers.
pub(crate) async fn workflows(orchestrator: &Path, variables: &[(String, String)]) -> Workflows {
    match client::registered(orchestrator, &as_orchestrator(variables), ASK).await {
        Ok(registered) if !registered.is_empty() => Workflows::Known(registered),
        _ => Workflows::Unknown,
    }
}

/// Variables for an orchestrator that is started to replay: one binary may be several functions.
pub(crate) fn as_orchestrator(variables: &[(String, String)]) -> Vec<(String, String)> {
    let name = ("AWS_LAMBDA_FUNCTION_NAME".to_owned(), "orchestrator".to_owned());
    variables.iter().cloned().chain([name]).collect()
}

impl Workflows {
    /// The commands that start a workflow. `program` is how the user runs this program, `export` whether it needs the address.
    pub(crate) fn commands(&self, api: &str, program: &str, export: bool) -> String {
        let (listed, name, curl, argument) = match self {
            Workflows::Known(all) if all.iter().any(|one| one.name == SAMPLE) => (
                String::new(),
                SAMPLE.to_owned(),
                format!(r#"{{"id": "A-1", "input": {}}}"#, sample_order("A-1")),
                format!("--id A-2 --wait --input '{}'", sample_order("A-2")),
            ),
            Workflows::Known(all) => {
                let name = all.first().map(|one| one.name.clone()).unwrap_or_default();
                (list(all), name, text_input(), "--wait --input 'INPUT'".to_owned())
            }
            Workflows::Unknown => (
                String::new(),
                "NAME".to_owned(),
                text_input(),
                "--wait --input 'INPUT'".to_owned(),
            ),
        };
        let mut text = listed;
        text += "Start a workflow in the dashboard, or in another terminal:\n";
        text += &format!(
            "    curl {api}/v1/orchestrations/{}/instances -H 'Content-Type: application/json' -H 'Prefer: wait=20' \\\n      \
             -d '{curl}'\n\nThe command line does the same:\n",
            in_url(&name)
        );
        if export {
            text += &format!("    export DUROXIDE_LAMBDA_URL={api}\n");
        }
        text + &format!("    {program} start {} {argument}\n", shell_word(&escape(&name)))
    }
}

fn sample_order(id: &str) -> String {
    SAMPLE_ORDER.replace("ID", id)
}

fn text_input() -> String {
    r#"{"inputText": "INPUT"}"#.to_owned()
}

/// The orchestrations with their versions.
fn list(all: &[Registered]) -> String {
    let mut lines: String = all
        .iter()
        .take(LISTED)
        .map(|one| format!("    {} {}\n", escape(&one.name), one.versions.join(", ")))
        .collect();
    if all.len() > LISTED {
        lines += &format!("    and {} more\n", all.len() - LISTED);
    }
    format!("The orchestrator registers:\n{lines}\n")
}

/// A name as a segment of a URL.
fn in_url(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
        .replace("%5F", "_")
        .replace("%2E", ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(names: &[&str]) -> Workflows {
        let one = |name: &&str| Registered {
            name: (*name).to_owned(),
            versions: vec!["1.0.0".to_owned(), "2.0.0".to_owned()],
        };
        Workflows::Known(names.iter().map(one).collect())
    }

    #[test]
    fn an_order_is_suggested_only_to_the_sample() {
        let text = registered(&["dispatch", SAMPLE]).commands("http://a", "it", false);
        assert!(
            text.contains("/orchestrations/fulfil-order/instances") && text.contains("A-2"),
            "{text}"
        );
        let own = registered(&["hello world", "Order"]).commands("http://a", "it", true);
        let parts = [
            "    hello world 1.0.0, 2.0.0\n    Order 1.0.0, 2.0.0\n",
            "http://a/v1/orchestrations/hello%20world/instances",
            "    export DUROXIDE_LAMBDA_URL=http://a\n    it start 'hello world' --wait",
        ];
        for part in parts {
            assert!(own.contains(part), "{part}: {own}");
        }
        for text in [own, Workflows::Unknown.commands("http://a", "it", false)] {
            assert!(!text.contains(SAMPLE) && !text.contains("teapot"), "{text}");
        }
    }

    #[test]
    fn many_orchestrations_are_counted() {
        let names: Vec<String> = (0..20).map(|number| format!("o-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = registered(&names).commands("http://a", "it", false);
        assert!(text.contains("and 8 more") && !text.contains("o-12 "), "{text}");
    }
}
