//! An explanation as an answer. Pure.

use super::{blocked, status};
use crate::types::time::rfc3339;
use crate::types::{ChainLink, Evidence, Explanation, Next, Similar, Wait};
use duroxide_cosmos as store;
use duroxide_cosmos::WokenBy;

pub(crate) fn explanation(of: &store::Explanation) -> Explanation {
    Explanation {
        instance: of.instance.clone(),
        orchestration: of.orchestration.clone(),
        version: of.version.clone(),
        status: status(&of.status),
        at: rfc3339(of.at),
        sentence: of.sentence.clone(),
        cause: of.cause.name().to_owned(),
        needs_attention: of.needs_attention,
        since: of.since.map(rfc3339),
        until: of.until.map(rfc3339),
        waits: of.waits.iter().map(wait).collect(),
        more_waits: of.more_waits as u64,
        chain: of.chain.iter().map(link).collect(),
        evidence: of.evidence.iter().map(evidence).collect(),
        next: of.next.iter().map(next).collect(),
    }
}

fn wait(of: &store::Wait) -> Wait {
    let woken_by = of.woken_by.map(|by| match by {
        WokenBy::Wakeup => "wakeup",
        WokenBy::Maintenance => "maintenance",
    });
    Wait {
        kind: of.kind.name().to_owned(),
        cause: of.cause.name().to_owned(),
        id: of.id,
        name: of.name.clone(),
        instance: of.instance.clone(),
        text: of.text.clone(),
        needs_attention: of.needs_attention,
        since: of.since.map(rfc3339),
        due: of.due.map(rfc3339),
        attempt: of.attempt,
        max_attempts: of.max_attempts,
        last_end: of.last_end.map(|end| end.name().to_owned()),
        last_error: of.last_error.clone(),
        claimed_until: of.claimed_until.map(rfc3339),
        blocked: of.blocked.as_ref().map(blocked),
        tag: of.tag.clone(),
        session: of.session.clone(),
        woken_by: woken_by.map(str::to_owned),
        may_be_left_over: of.may_be_left_over,
        similar: of.similar.iter().map(similar).collect(),
    }
}

fn similar(of: &store::Similar) -> Similar {
    Similar {
        kind: of.kind.name().to_owned(),
        name: of.name.clone(),
        at: of.at.map(rfc3339),
        why: of.why.clone(),
    }
}

fn link(of: &store::Link) -> ChainLink {
    ChainLink {
        instance: of.instance.clone(),
        orchestration: of.orchestration.clone(),
        status: of.status.as_ref().map(status),
        cause: of.cause.name().to_owned(),
        sentence: of.sentence.clone(),
    }
}

fn evidence(of: &store::Evidence) -> Evidence {
    Evidence {
        what: of.what.to_owned(),
        value: of.value.clone(),
        at: of.at.map(rfc3339),
    }
}

fn next(of: &store::Advice) -> Next {
    Next {
        text: of.text.clone(),
        command: of.command.as_deref().map(command),
    }
}

/// The arguments as they are typed. What begins with a dash would be an option, so `--` comes before it.
fn command(arguments: &[String]) -> String {
    let mut words = vec!["duroxide-lambda".to_owned()];
    let mut is_open = true;
    for argument in arguments {
        if is_open && argument.starts_with('-') {
            words.push("--".to_owned());
            is_open = false;
        }
        words.push(quoted(argument));
    }
    words.join(" ")
}

fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_for_a_shell() {
        let command =
            |arguments: &[&str]| command(&arguments.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(command(&["history", "order-7"]), "duroxide-lambda history order-7");
        assert_eq!(command(&["history", "-7"]), "duroxide-lambda history -- -7");
        assert_eq!(
            command(&["raise", "it's; rm", "a b"]),
            "duroxide-lambda raise 'it'\\''s; rm' 'a b'"
        );
        assert_eq!(command(&["cancel", ""]), "duroxide-lambda cancel ''");
    }
}
