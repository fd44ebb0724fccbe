//! Reads and checks the variables, group by group. Each function adds its problems to the [`Reader`] and returns a value in
//! any case, so that the next group is checked too.

use super::variables::Reader;
use super::{ActivityLimits, CosmosSettings, Limits, MaintenanceSettings, OnActivityGivenUp, OnDefect, credential};
use crate::log;
use crate::notifier::Queues;
use cosmos::{ClientConfig, Key, StaticKey};
use duroxide::providers::{MAX_WORKER_TAGS, TagFilter};
use duroxide_cosmos::Retention;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// The word in `WORKER_TAGS` for activities without a tag.
const DEFAULT_TAG: &str = "default";

impl CosmosSettings {
    /// `None` when there is no credential, which is a problem.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<CosmosSettings> {
        let endpoint = reader.text("COSMOS_ENDPOINT");
        if !endpoint.is_empty() {
            // The client knows which endpoints it accepts, and its error does not repeat the text. The key does not
            // matter here.
            let any = Key::from_base64("YW55").expect("this is base64");
            if let Err(error) = ClientConfig::new(&endpoint, StaticKey::new(any)) {
                reader.problem("COSMOS_ENDPOINT", format!("is wrong: {error}"));
            }
        }
        let credential = credential::read(reader);
        let database = reader.text("COSMOS_DATABASE");
        let container = reader.text("COSMOS_CONTAINER");
        Some(CosmosSettings {
            endpoint,
            credential: credential?,
            database,
            container,
        })
    }
}

pub(super) fn queues(reader: &mut Reader<'_>) -> Queues {
    let orchestrator = reader.text("ORCHESTRATOR_QUEUE_URL");
    let worker = reader.text("WORKER_QUEUE_URL");
    for (name, url) in [("ORCHESTRATOR_QUEUE_URL", &orchestrator), ("WORKER_QUEUE_URL", &worker)] {
        if !url.is_empty()
            && let Err(reason) = check_queue(url)
        {
            reader.problem(name, reason);
        }
    }
    if !worker.is_empty() && worker == orchestrator {
        reader.problem(
            "WORKER_QUEUE_URL",
            "is the same as ORCHESTRATOR_QUEUE_URL: each function needs a queue of its own",
        );
    }
    const TAGGED: &str = "WORKER_TAG_QUEUE_URLS";
    let tagged: BTreeMap<String, String> = serde_json::from_str(&reader.text(TAGGED)).unwrap_or_else(|error| {
        reader.problem(
            TAGGED,
            format!("is not a JSON object from tag to URL ({error}): set it like {{\"gpu\":\"https://...\"}}"),
        );
        BTreeMap::new()
    });
    for (tag, url) in &tagged {
        if tag.is_empty() || tag == DEFAULT_TAG {
            reader.problem(
                TAGGED,
                format!("names a queue for the tag {tag:?}: set WORKER_QUEUE_URL for activities without a tag"),
            );
        }
        if let Err(reason) = check_queue(url) {
            reader.problem(TAGGED, format!("has for the tag {tag:?} a URL that {reason}"));
        }
    }
    Queues {
        orchestrator,
        worker,
        tagged,
    }
}

/// Completes a sentence that begins with the variable.
fn check_queue(url: &str) -> Result<(), String> {
    let address = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let (host, path) = address.and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    if host.is_empty() || name.is_empty() || url.contains(char::is_whitespace) {
        return Err(format!(
            "is {url:?}, which is not a queue's URL: set it like https://sqs.eu-west-1.amazonaws.com/123456789012/turns"
        ));
    }
    if name.ends_with(".fifo") {
        return Err(format!(
            "is {url:?}, a FIFO queue, which cannot delay single messages: set it to a standard queue"
        ));
    }
    Ok(())
}

pub(super) fn tags(reader: &mut Reader<'_>) -> TagFilter {
    const NAME: &str = "WORKER_TAGS";
    let text = reader.as_set(NAME).unwrap_or_default();
    let mut tags: HashSet<String> = text
        .split(',')
        .map(|tag| tag.trim().to_owned())
        .filter(|tag| !tag.is_empty())
        .collect();
    let default = tags.remove(DEFAULT_TAG);
    if tags.len() > MAX_WORKER_TAGS {
        reader.problem(
            NAME,
            format!(
                "names {} tags: set at most {MAX_WORKER_TAGS} for one function, and serve the rest with another",
                tags.len()
            ),
        );
    }
    match (default, tags.is_empty()) {
        (true, true) => TagFilter::DefaultOnly,
        (true, false) => TagFilter::DefaultAnd(tags),
        (false, false) => TagFilter::Tags(tags),
        (false, true) => {
            reader.problem(
                NAME,
                "names no tag: set it to `default` for activities without a tag, or leave it out",
            );
            TagFilter::None
        }
    }
}

pub(super) fn log_level(reader: &mut Reader<'_>) -> String {
    let level = reader.text("LOG_LEVEL");
    if let Err(reason) = log::filter(&level) {
        reader.problem("LOG_LEVEL", reason);
    }
    level
}

pub(super) fn metrics_namespace(reader: &mut Reader<'_>) -> Option<String> {
    const NAME: &str = "METRICS_NAMESPACE";
    let namespace = reader.as_set(NAME).filter(|text| !text.is_empty())?;
    let plain = |character: char| character.is_ascii_alphanumeric() || ".-_/#:".contains(character);
    if namespace.len() > 255 || namespace.starts_with([':', '/']) || !namespace.chars().all(plain) {
        reader.problem(
            NAME,
            format!(
                "is {namespace:?}: set it to at most 255 letters, digits and . - _ / # :, not beginning with : or /"
            ),
        );
    } else if namespace.starts_with("AWS/") {
        reader.problem(
            NAME,
            format!("is {namespace:?}: set another one, AWS/ is reserved for AWS services"),
        );
    }
    Some(namespace)
}

impl Limits {
    pub(super) fn read(reader: &mut Reader<'_>) -> Limits {
        const HALF_A_DAY: u32 = 43_200;
        const DAY: u64 = 24 * 60 * 60;
        /// The longest invocation that Lambda knows.
        const INVOCATION_MS: u32 = 900_000;
        let seconds = |number: u32| Duration::from_secs(number.into());
        let millis = |number: u32| Duration::from_millis(number.into());
        let concurrency = reader.number("DUROXIDE_CONCURRENCY", 1..=1000);
        let limits = Limits {
            concurrency: concurrency as usize,
            history_bytes: history_bytes(reader, concurrency),
            history_cache: reader.number("DUROXIDE_HISTORY_CACHE_BYTES", 0..=u32::MAX).into(),
            max_attempts: reader.number("DUROXIDE_MAX_ATTEMPTS", 1..=u32::MAX),
            activities: ActivityLimits::read(reader),
            on_activity_given_up: OnActivityGivenUp::read(reader),
            outbox_attempts: reader.number("DUROXIDE_OUTBOX_ATTEMPTS", 1..=u32::MAX),
            dead_letters_kept: Duration::from_secs(
                u64::from(reader.number("DUROXIDE_DEAD_LETTER_DAYS", 1..=3650)) * DAY,
            ),
            on_nondeterminism: on_defect(reader, "DUROXIDE_ON_NONDETERMINISM"),
            on_panic: on_defect(reader, "DUROXIDE_ON_PANIC"),
            unknown_kept: Duration::from_secs(u64::from(reader.number("DUROXIDE_UNKNOWN_DAYS", 1..=3650)) * DAY),
            build: reader.optional("DUROXIDE_BUILD"),
            orphan_grace: seconds(reader.number("DUROXIDE_ORPHAN_GRACE_SECONDS", 1..=31_536_000)),
            turn_lock: seconds(reader.number("DUROXIDE_TURN_LOCK_SECONDS", 1..=HALF_A_DAY)),
            work_lock: seconds(reader.number("DUROXIDE_WORK_LOCK_SECONDS", 15..=HALF_A_DAY)),
            session_lock: seconds(reader.number("DUROXIDE_SESSION_LOCK_SECONDS", 1..=HALF_A_DAY)),
            turn_reserve: millis(reader.number("DUROXIDE_TURN_RESERVE_MS", 0..=INVOCATION_MS)),
            cancel_grace: millis(reader.number("DUROXIDE_CANCEL_GRACE_MS", 0..=INVOCATION_MS)),
            commit_reserve: millis(reader.number("DUROXIDE_COMMIT_RESERVE_MS", 0..=INVOCATION_MS)),
            notify_timeout: millis(reader.number("DUROXIDE_NOTIFY_TIMEOUT_MS", 1..=INVOCATION_MS)),
            wakeup_reach: seconds(reader.number("DUROXIDE_WAKEUP_REACH_SECONDS", 0..=900)),
        };
        // A lock is renewed after a third of its time, and not after the activity was asked to stop: the rest of it must
        // last until the activity is released.
        if limits.cancel_grace + limits.commit_reserve > limits.work_lock / 2 {
            reader.problem(
                "DUROXIDE_WORK_LOCK_SECONDS",
                "is too short: set it to at least twice DUROXIDE_CANCEL_GRACE_MS and DUROXIDE_COMMIT_RESERVE_MS together"
                    .to_owned(),
            );
        }
        limits
    }
}

fn on_defect(reader: &mut Reader<'_>, name: &'static str) -> OnDefect {
    match reader.text(name).as_str() {
        "block" => OnDefect::Block,
        "fail" => OnDefect::Fail,
        other => {
            reader.problem(name, format!("is {other:?}: set it to block or fail"));
            OnDefect::default()
        }
    }
}

/// How large a history may be. A turn needs up to ten bytes of memory per byte of its history (measured, see
/// docs/benchmarks.md), and so many turns share the memory of a function, of which a quarter is for everything else.
fn history_bytes(reader: &mut Reader<'_>, concurrency: u32) -> u64 {
    const LEAST: u32 = 64 * 1024;
    const BYTES_PER_BYTE: u64 = 10;
    /// For programs that are no function.
    const WITHOUT_FUNCTION: u64 = 64 * 1024 * 1024;
    let set = reader.optional_number("DUROXIDE_HISTORY_LIMIT_BYTES", LEAST..=u32::MAX);
    set.map(u64::from).unwrap_or_else(|| {
        let shared = reader
            .function_bytes()
            .map(|bytes| bytes / 4 * 3 / BYTES_PER_BYTE / u64::from(concurrency.max(1)));
        shared.map_or(WITHOUT_FUNCTION, |bytes| bytes.max(LEAST.into()))
    })
}

pub(super) fn maintenance(reader: &mut Reader<'_>, limits: &Limits) -> MaintenanceSettings {
    const DAY: u64 = 24 * 60 * 60;
    let seconds = |number: u32| Duration::from_secs(number.into());
    let days = |number: u32| Duration::from_secs(u64::from(number) * DAY);
    MaintenanceSettings {
        overdue: seconds(reader.number("MAINTENANCE_OVERDUE_SECONDS", 1..=3600)),
        period: seconds(reader.number("MAINTENANCE_PERIOD_SECONDS", 1..=86_400)),
        page: reader.number("MAINTENANCE_PAGE", 1..=1000),
        retention: Retention {
            delete_after: reader
                .optional_number("RETENTION_DELETE_AFTER_DAYS", 1..=36_500)
                .map(days),
            keep_executions: reader
                .optional_number("RETENTION_KEEP_EXECUTIONS", 1..=u32::MAX)
                .map(u64::from),
        },
        search_interval: seconds(reader.number("MAINTENANCE_SEARCH_MINUTES", 1..=1440) * 60),
        wakeup_reach: limits.wakeup_reach,
    }
}
