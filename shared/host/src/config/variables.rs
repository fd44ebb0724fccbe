//! Every environment variable that this crate reads, in one table.
//!
//! `read.rs` reads through [`Reader`], which takes names and defaults from this table, so that every variable is listed
//! here. A test compares the deployment template with the table.
//!
//! AWS's own variables (`AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_LAMBDA_*`) are set by Lambda and read by its crates, one of
//! them here too: they are not listed.

use std::fmt;
use std::ops::RangeInclusive;

/// One environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Whether a function needs it to start.
    pub required: bool,
    /// The value when it is not set.
    pub default: Option<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
}

const fn required(name: &'static str, meaning: &'static str) -> Variable {
    Variable {
        name,
        required: true,
        default: None,
        meaning,
    }
}

const fn optional(name: &'static str, default: Option<&'static str>, meaning: &'static str) -> Variable {
    Variable {
        name,
        required: false,
        default,
        meaning,
    }
}

/// All of them.
pub const VARIABLES: &[Variable] = &[
    required(
        "COSMOS_ENDPOINT",
        "the account's URI, like https://my-account.documents.azure.com",
    ),
    optional(
        "COSMOS_TENANT_ID",
        None,
        "the Entra ID tenant of the application that may use the account; with COSMOS_CLIENT_ID, instead of a key",
    ),
    optional(
        "COSMOS_CLIENT_ID",
        None,
        "the client id of that application, which trusts the AWS role of the function",
    ),
    optional(
        "COSMOS_CLIENT_SECRET_ARN",
        None,
        "the ARN of the secret with the application's client secret or certificate, if it does not trust the AWS role",
    ),
    optional(
        "COSMOS_AUTHORITY",
        Some("https://login.microsoftonline.com"),
        "the address of Entra ID",
    ),
    optional(
        "COSMOS_KEY_SECRET_ARN",
        None,
        "the ARN of the Secrets Manager secret that holds the account's key, instead of an application",
    ),
    optional(
        "COSMOS_KEY",
        None,
        "the account's read-write key in base64, for development",
    ),
    optional(
        "COSMOS_TOKEN",
        None,
        "a token of Entra ID for Cosmos DB, for people: it ends after about an hour",
    ),
    optional("COSMOS_DATABASE", Some("duroxide"), "the database's name"),
    optional("COSMOS_CONTAINER", Some("workflows"), "the container's name"),
    required(
        "ORCHESTRATOR_QUEUE_URL",
        "the URL of the SQS standard queue that wakes the orchestrator function",
    ),
    required(
        "WORKER_QUEUE_URL",
        "the URL of the SQS standard queue that wakes the worker function",
    ),
    optional(
        "WORKER_TAG_QUEUE_URLS",
        Some("{}"),
        "a JSON object from an activity tag to the URL of its own queue; tags without one use WORKER_QUEUE_URL",
    ),
    optional(
        "WORKER_TAGS",
        Some("default"),
        "the activity tags that this worker function serves, separated by commas; `default` stands for no tag",
    ),
    optional(
        "DUROXIDE_CONCURRENCY",
        Some("10"),
        "the number of wakeups of a batch that are served at once, 1 to 1000",
    ),
    optional(
        "DUROXIDE_MAX_ATTEMPTS",
        Some("10"),
        "after this many attempts an activity is given up, and a turn is blocked",
    ),
    optional(
        "DUROXIDE_ACTIVITY_ATTEMPTS",
        None,
        "attempts after which single activities are given up, like Charge=3,Ship=5; the others have DUROXIDE_MAX_ATTEMPTS",
    ),
    optional(
        "DUROXIDE_ACTIVITY_TIMEOUTS",
        None,
        "the time after which an attempt of an activity is stopped, like Charge=2s,Ship=30s, at least 1s; the others have \
         the function's timeout less its reserves",
    ),
    optional(
        "DUROXIDE_ON_ACTIVITY_GIVEN_UP",
        Some("fail-activity"),
        "what becomes of an activity that was tried as often as allowed: fail-activity, which its orchestration can handle, \
         or fail-orchestration",
    ),
    optional(
        "DUROXIDE_OUTBOX_ATTEMPTS",
        Some("12"),
        "after this many attempts a message that cannot be delivered becomes a dead letter",
    ),
    optional(
        "DUROXIDE_DEAD_LETTER_DAYS",
        Some("30"),
        "how long dead letters are kept, 1 to 3650 days",
    ),
    optional(
        "DUROXIDE_ORPHAN_GRACE_SECONDS",
        Some("86400"),
        "how long messages of an instance that does not exist wait for its start before they become dead letters",
    ),
    optional(
        "DUROXIDE_BUILD",
        None,
        "a name for this build, such as a version or a commit; whatever it blocks shows that name",
    ),
    optional(
        "DUROXIDE_ON_NONDETERMINISM",
        Some("block"),
        "what becomes of an instance whose code does not do what its history says: block (another build can go on), or fail",
    ),
    optional(
        "DUROXIDE_ON_PANIC",
        Some("block"),
        "what becomes of an instance whose code panics: block (another build can go on), or fail",
    ),
    optional(
        "DUROXIDE_UNKNOWN_DAYS",
        Some("7"),
        "how long an instance or activity that no function registers stays blocked before it is given up, 1 to 3650 days",
    ),
    optional(
        "DUROXIDE_HISTORY_LIMIT_BYTES",
        None,
        "how large the history of one execution may be before its orchestration is given up; not set: three \
         quarters of the function's memory, divided by 10 and by DUROXIDE_CONCURRENCY",
    ),
    optional(
        "DUROXIDE_HISTORY_CACHE_BYTES",
        Some("33554432"),
        "how much of the histories that it served a process keeps, so that the next turns read only what is new; 0: nothing",
    ),
    optional(
        "DUROXIDE_TURN_LOCK_SECONDS",
        Some("30"),
        "how long a turn that died keeps its instance locked",
    ),
    optional(
        "DUROXIDE_WORK_LOCK_SECONDS",
        Some("30"),
        "how long an activity that died keeps its work item locked, at least 15",
    ),
    optional(
        "DUROXIDE_SESSION_LOCK_SECONDS",
        Some("30"),
        "how long an environment that is gone keeps its affinity sessions",
    ),
    optional(
        "DUROXIDE_TURN_RESERVE_MS",
        Some("3000"),
        "a turn begins only when this much of the invocation is left",
    ),
    optional(
        "DUROXIDE_CANCEL_GRACE_MS",
        Some("2000"),
        "the time that a cancelled activity has to stop",
    ),
    optional(
        "DUROXIDE_COMMIT_RESERVE_MS",
        Some("2000"),
        "reserved at the end of an invocation to commit or release",
    ),
    optional(
        "DUROXIDE_NOTIFY_TIMEOUT_MS",
        Some("2000"),
        "the time limit for sending up to 500 wakeups after a commit; maintenance makes up for those that were not sent",
    ),
    optional(
        "DUROXIDE_WAKEUP_REACH_SECONDS",
        Some("900"),
        "timers due within this time get a delayed wakeup, later ones are woken by maintenance; at most 900",
    ),
    optional(
        "MAINTENANCE_OVERDUE_SECONDS",
        Some("30"),
        "maintenance wakes an item that has been due for this long",
    ),
    optional(
        "MAINTENANCE_PERIOD_SECONDS",
        Some("60"),
        "how often the schedule invokes maintenance",
    ),
    optional(
        "MAINTENANCE_PAGE",
        Some("100"),
        "the most items of each physical partition on one page of a pass, 1 to 1000",
    ),
    optional(
        "MAINTENANCE_SEARCH_MINUTES",
        Some("60"),
        "how often scheduled runs apply retention, and search for affinity sessions of older releases",
    ),
    optional(
        "RETENTION_DELETE_AFTER_DAYS",
        None,
        "maintenance deletes instances that ended this many days ago, as whole trees; not set: none",
    ),
    optional(
        "RETENTION_KEEP_EXECUTIONS",
        None,
        "maintenance deletes all but the last so many executions of each instance; not set: none",
    ),
    optional(
        "LOG_LEVEL",
        Some("info"),
        "off, error, warn, info, debug or trace, or a list such as info,duroxide=debug",
    ),
    optional(
        "METRICS_NAMESPACE",
        Some("duroxide-lambda"),
        "the CloudWatch namespace of the metrics; set it to an empty text to write none",
    ),
    optional(
        "DUROXIDE_API_AUTH",
        Some("iam"),
        "how the HTTP API knows its callers: iam, jwt, or none on the same machine",
    ),
    optional(
        "DUROXIDE_API_IAM_ROLES",
        Some("{}"),
        "a JSON object from the ARN of a caller, which may end in *, to reader, client or operator",
    ),
    optional(
        "DUROXIDE_API_IAM_DEFAULT_ROLE",
        Some("client"),
        "the role of other callers that IAM lets through: reader, client, operator or none",
    ),
    optional(
        "DUROXIDE_API_JWT_ISSUER",
        None,
        "the issuer of the tokens, like https://login.example.com",
    ),
    optional("DUROXIDE_API_JWT_AUDIENCE", None, "the audience that a token must have"),
    optional(
        "DUROXIDE_API_JWT_JWKS_URL",
        None,
        "where the keys of the issuer are; not set: its discovery document says it",
    ),
    optional(
        "DUROXIDE_API_JWT_CLIENT_ID",
        None,
        "the public client of the issuer that people sign in to the dashboard with; not set: they give a token",
    ),
    optional(
        "DUROXIDE_API_JWT_SCOPE",
        Some("openid"),
        "the scopes that the dashboard asks for, separated by spaces",
    ),
    optional(
        "DUROXIDE_API_JWT_ROLE_CLAIM",
        Some("roles"),
        "the claim of a token that holds the caller's roles",
    ),
    optional(
        "DUROXIDE_API_JWT_ROLES",
        Some("{}"),
        "a JSON object from other values of that claim to reader, client or operator",
    ),
    optional(
        "DUROXIDE_API_CORS_ORIGIN",
        None,
        "the origin whose web pages may call the API, like https://app.example.com; not set: none",
    ),
];

/// One variable that cannot be used. Its value is not repeated where it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable.
    pub variable: &'static str,
    /// The problem, and what to set.
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.variable, self.reason)
    }
}

/// Reads variables of the table, and collects their problems.
pub(super) struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Reader<'a> {
        Reader {
            get,
            problems: Vec::new(),
        }
    }

    pub(super) fn problem(&mut self, variable: &'static str, reason: impl Into<String>) {
        self.problems.push(Problem {
            variable,
            reason: reason.into(),
        });
    }

    /// The variable's text if it is set, even to nothing; else its default.
    pub(super) fn as_set(&mut self, name: &'static str) -> Option<String> {
        let text = (self.get)(name).or_else(|| known(name).default.map(str::to_owned))?;
        Some(text.trim().to_owned())
    }

    /// The memory of the function, which Lambda tells it.
    pub(super) fn function_bytes(&self) -> Option<u64> {
        let megabytes: u64 = (self.get)("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")?.trim().parse().ok()?;
        megabytes.checked_mul(1024 * 1024)
    }

    /// The variable's text. An empty one counts as not set: a template can hardly leave a variable out.
    pub(super) fn optional(&mut self, name: &'static str) -> Option<String> {
        let variable = known(name);
        (self.get)(name)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .or_else(|| variable.default.map(str::to_owned))
    }

    /// The variable's text, which must be set; on a problem, an empty text.
    pub(super) fn text(&mut self, name: &'static str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.problem(name, format!("is not set: set it to {}", known(name).meaning));
            String::new()
        })
    }

    /// The variable's whole number within a range, if it is set.
    pub(super) fn optional_number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let text = self.optional(name)?;
        Some(self.parsed(name, &text, range))
    }

    /// The variable's whole number within a range; on a problem, the range's start.
    pub(super) fn number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> u32 {
        let text = self.text(name);
        self.parsed(name, &text, range)
    }

    fn parsed(&mut self, name: &'static str, text: &str, range: RangeInclusive<u32>) -> u32 {
        match text.parse() {
            Ok(number) if range.contains(&number) => number,
            _ => {
                let (least, most) = (range.start(), range.end());
                let reason = format!("is {text:?}: set it to a whole number from {least} to {most}");
                self.problem(name, reason);
                *range.start()
            }
        }
    }
}

fn known(name: &'static str) -> &'static Variable {
    VARIABLES
        .iter()
        .find(|variable| variable.name == name)
        .expect("a variable that is read is in the table")
}
