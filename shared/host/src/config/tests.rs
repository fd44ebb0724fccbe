use super::*;
use cosmos::Key;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const KEY: &str = "c2VjcmV0LXNlY3JldA==";
const ARN: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:cosmos-AbCdEf";

/// The least that works, with some variables changed or (by `None`) left out.
fn from(changes: &[(&str, Option<&str>)]) -> Result<Config, ConfigError> {
    let mut variables = HashMap::from([
        ("COSMOS_ENDPOINT", "https://x.documents.azure.com"),
        ("COSMOS_KEY", KEY),
        ("ORCHESTRATOR_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/turns"),
        ("WORKER_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/work"),
    ]);
    for (name, value) in changes {
        match value {
            Some(value) => variables.insert(name, value),
            None => variables.remove(name),
        };
    }
    Config::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()))
}

fn with(name: &str, value: &str) -> Result<Config, ConfigError> {
    from(&[(name, Some(value))])
}

fn tags(names: &[&str]) -> std::collections::HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn the_required_variables_alone_give_the_defaults_of_the_table() {
    let config = from(&[]).unwrap();
    assert_eq!(config.cosmos.endpoint, "https://x.documents.azure.com");
    assert!(matches!(&config.cosmos.credential, CredentialSetting::Key(key) if *key == Key::from_base64(KEY).unwrap()));
    assert_eq!(
        (config.cosmos.database.as_str(), config.cosmos.container.as_str()),
        ("duroxide", "workflows")
    );
    assert_eq!(
        config.queues.orchestrator,
        "https://sqs.eu-west-1.amazonaws.com/1/turns"
    );
    assert_eq!(config.queues.worker, "https://sqs.eu-west-1.amazonaws.com/1/work");
    assert!(config.queues.tagged.is_empty());
    assert_eq!(config.tags, TagFilter::DefaultOnly);
    assert_eq!(config.limits, Limits::default());
    assert_eq!(
        (config.log_level.as_str(), config.metrics_namespace.as_deref()),
        ("info", Some("duroxide-lambda"))
    );
    assert_eq!(
        Limits::default(),
        Limits {
            concurrency: 10,
            max_attempts: 10,
            activities: ActivityLimits::default(),
            on_activity_given_up: OnActivityGivenUp::FailActivity,
            outbox_attempts: 12,
            dead_letters_kept: Duration::from_secs(30 * 86_400),
            orphan_grace: Duration::from_secs(86_400),
            on_nondeterminism: OnDefect::Block,
            on_panic: OnDefect::Block,
            unknown_kept: Duration::from_secs(7 * 86_400),
            build: None,
            history_bytes: 64 * 1024 * 1024,
            history_cache: 32 * 1024 * 1024,
            turn_lock: Duration::from_secs(30),
            work_lock: Duration::from_secs(30),
            session_lock: Duration::from_secs(30),
            turn_reserve: Duration::from_secs(3),
            cancel_grace: Duration::from_secs(2),
            commit_reserve: Duration::from_secs(2),
            notify_timeout: Duration::from_secs(2),
            wakeup_reach: Duration::from_secs(900),
        }
    );
    assert_eq!(config.maintenance, MaintenanceSettings::default());
    assert_eq!(
        MaintenanceSettings::default(),
        MaintenanceSettings {
            overdue: Duration::from_secs(30),
            period: Duration::from_secs(60),
            page: 100,
            retention: Retention::default(),
            search_interval: Duration::from_secs(3_600),
            wakeup_reach: Duration::from_secs(900),
        }
    );
}

#[test]
fn the_limit_of_a_history_follows_from_the_memory_of_the_function() {
    let limit = |memory, concurrency, set| {
        let config = from(&[
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory),
            ("DUROXIDE_CONCURRENCY", concurrency),
            ("DUROXIDE_HISTORY_LIMIT_BYTES", set),
        ]);
        config.unwrap().limits.history_bytes
    };
    const MIB: u64 = 1024 * 1024;
    assert_eq!(limit(Some("256"), None, None), 192 * MIB / 100);
    assert_eq!(limit(Some("2048"), Some("1"), None), 1536 * MIB / 10);
    assert_eq!(
        limit(Some("128"), Some("1000"), None),
        64 * 1024,
        "a small history always fits"
    );
    assert_eq!(limit(Some("a lot"), None, None), 64 * MIB);
    assert_eq!(limit(Some("256"), None, Some("100000")), 100_000);
    assert_eq!(limit(Some("256"), None, Some("")), 192 * MIB / 100);
}

#[test]
fn everything_can_be_set() {
    let config = from(&[
        ("COSMOS_KEY", None),
        ("COSMOS_KEY_SECRET_ARN", Some(ARN)),
        ("COSMOS_DATABASE", Some("db")),
        ("COSMOS_CONTAINER", Some(" c ")),
        (
            "WORKER_TAG_QUEUE_URLS",
            Some(r#"{"gpu":"http://localhost:5000/1/gpu"}"#),
        ),
        ("WORKER_TAGS", Some("gpu")),
        ("DUROXIDE_CONCURRENCY", Some("1000")),
        ("DUROXIDE_MAX_ATTEMPTS", Some("1")),
        ("DUROXIDE_ACTIVITY_ATTEMPTS", Some("Charge=3, Ship=5")),
        ("DUROXIDE_ACTIVITY_TIMEOUTS", Some("Charge=2s")),
        ("DUROXIDE_ON_ACTIVITY_GIVEN_UP", Some("fail-orchestration")),
        ("DUROXIDE_OUTBOX_ATTEMPTS", Some("24")),
        ("DUROXIDE_DEAD_LETTER_DAYS", Some("25")),
        ("DUROXIDE_ORPHAN_GRACE_SECONDS", Some("26")),
        ("DUROXIDE_ON_NONDETERMINISM", Some("fail")),
        ("DUROXIDE_ON_PANIC", Some("fail")),
        ("DUROXIDE_UNKNOWN_DAYS", Some("27")),
        ("DUROXIDE_BUILD", Some("v7")),
        ("DUROXIDE_HISTORY_LIMIT_BYTES", Some("1000000")),
        ("DUROXIDE_HISTORY_CACHE_BYTES", Some("1000")),
        ("DUROXIDE_TURN_LOCK_SECONDS", Some("11")),
        ("DUROXIDE_WORK_LOCK_SECONDS", Some("15")),
        ("DUROXIDE_SESSION_LOCK_SECONDS", Some("12")),
        ("DUROXIDE_TURN_RESERVE_MS", Some("13")),
        ("DUROXIDE_CANCEL_GRACE_MS", Some("14")),
        ("DUROXIDE_COMMIT_RESERVE_MS", Some("16")),
        ("DUROXIDE_NOTIFY_TIMEOUT_MS", Some("17")),
        ("DUROXIDE_WAKEUP_REACH_SECONDS", Some("18")),
        ("MAINTENANCE_OVERDUE_SECONDS", Some("19")),
        ("MAINTENANCE_PERIOD_SECONDS", Some("20")),
        ("MAINTENANCE_PAGE", Some("21")),
        ("MAINTENANCE_SEARCH_MINUTES", Some("27")),
        ("RETENTION_DELETE_AFTER_DAYS", Some("22")),
        ("RETENTION_KEEP_EXECUTIONS", Some("23")),
        ("LOG_LEVEL", Some("warn,duroxide=debug")),
        ("METRICS_NAMESPACE", Some("shop/orders")),
    ])
    .unwrap();
    assert!(matches!(&config.cosmos.credential, CredentialSetting::KeySecret { arn } if arn == ARN));
    assert_eq!(
        (config.cosmos.database.as_str(), config.cosmos.container.as_str()),
        ("db", "c")
    );
    let gpu = ("gpu".to_owned(), "http://localhost:5000/1/gpu".to_owned());
    assert_eq!(config.queues.tagged, BTreeMap::from([gpu]));
    assert_eq!(config.tags, TagFilter::Tags(tags(&["gpu"])));
    assert_eq!(
        config.limits,
        Limits {
            concurrency: 1000,
            max_attempts: 1,
            activities: ActivityLimits::default()
                .attempts("Charge", 3)
                .attempts("Ship", 5)
                .time("Charge", Duration::from_secs(2)),
            on_activity_given_up: OnActivityGivenUp::FailOrchestration,
            outbox_attempts: 24,
            dead_letters_kept: Duration::from_secs(25 * 86_400),
            orphan_grace: Duration::from_secs(26),
            on_nondeterminism: OnDefect::Fail,
            on_panic: OnDefect::Fail,
            unknown_kept: Duration::from_secs(27 * 86_400),
            build: Some("v7".to_owned()),
            history_bytes: 1_000_000,
            history_cache: 1_000,
            turn_lock: Duration::from_secs(11),
            work_lock: Duration::from_secs(15),
            session_lock: Duration::from_secs(12),
            turn_reserve: Duration::from_millis(13),
            cancel_grace: Duration::from_millis(14),
            commit_reserve: Duration::from_millis(16),
            notify_timeout: Duration::from_millis(17),
            wakeup_reach: Duration::from_secs(18),
        }
    );
    assert_eq!(
        config.maintenance,
        MaintenanceSettings {
            overdue: Duration::from_secs(19),
            period: Duration::from_secs(20),
            page: 21,
            retention: Retention {
                delete_after: Some(Duration::from_secs(22 * 86_400)),
                keep_executions: Some(23),
            },
            search_interval: Duration::from_secs(27 * 60),
            wakeup_reach: Duration::from_secs(18),
        }
    );
    assert_eq!(
        (config.log_level.as_str(), config.metrics_namespace.as_deref()),
        ("warn,duroxide=debug", Some("shop/orders"))
    );
}

#[test]
fn the_table_lists_exactly_the_variables_that_are_read() {
    let read = RefCell::new(BTreeSet::new());
    let error = Config::from_variables(|name| {
        read.borrow_mut().insert(name.to_owned());
        None
    })
    .unwrap_err();
    let table: BTreeSet<String> = VARIABLES.iter().map(|variable| variable.name.to_owned()).collect();
    read.borrow_mut().retain(|name| !name.starts_with("AWS_LAMBDA_"));
    assert_eq!(*read.borrow(), table);
    assert_eq!(table.len(), VARIABLES.len(), "each name once");
    let named: BTreeSet<_> = error.problems.iter().map(|problem| problem.variable).collect();
    let mut required: BTreeSet<_> = VARIABLES.iter().filter(|v| v.required).map(|v| v.name).collect();
    required.insert("COSMOS_KEY_SECRET_ARN");
    assert_eq!(named, required, "all are listed at once");
    for line in error.to_string().lines().skip(1) {
        assert!(line.contains("is not set") && line.contains("set "), "{line}");
    }
}

#[test]
fn an_empty_variable_counts_as_not_set_unless_it_has_a_meaning() {
    let blank = |name| from(&[(name, Some("  "))]);
    assert_eq!(blank("COSMOS_DATABASE").unwrap().cosmos.database, "duroxide");
    assert_eq!(blank("DUROXIDE_CONCURRENCY").unwrap().limits.concurrency, 10);
    assert!(matches!(
        blank("COSMOS_KEY_SECRET_ARN").unwrap().cosmos.credential,
        CredentialSetting::Key(_)
    ));
    assert_eq!(blank("METRICS_NAMESPACE").unwrap().metrics_namespace, None);
    assert_eq!(
        blank("COSMOS_ENDPOINT").unwrap_err().problems[0].variable,
        "COSMOS_ENDPOINT"
    );
    assert_eq!(blank("WORKER_TAGS").unwrap_err().problems[0].variable, "WORKER_TAGS");
}

#[test]
fn tags_become_a_filter() {
    for (text, filter) in [
        ("default", TagFilter::DefaultOnly),
        (" default , ", TagFilter::DefaultOnly),
        ("gpu", TagFilter::Tags(tags(&["gpu"]))),
        ("gpu,cpu,gpu", TagFilter::Tags(tags(&["gpu", "cpu"]))),
        ("default,gpu", TagFilter::DefaultAnd(tags(&["gpu"]))),
        (
            "a,b,c,d,e,default",
            TagFilter::DefaultAnd(tags(&["a", "b", "c", "d", "e"])),
        ),
    ] {
        assert_eq!(with("WORKER_TAGS", text).unwrap().tags, filter, "{text}");
    }
}

#[test]
fn an_unusable_value_is_refused_with_what_to_set() {
    for (name, value, why) in [
        ("COSMOS_ENDPOINT", "http://elsewhere.example", "https"),
        (
            "COSMOS_ENDPOINT",
            "AccountEndpoint=https://x;AccountKey=hush",
            "connection string",
        ),
        ("COSMOS_KEY", "hush*hush", "base64"),
        ("ORCHESTRATOR_QUEUE_URL", "turns", "not a queue's URL"),
        (
            "ORCHESTRATOR_QUEUE_URL",
            "arn:aws:sqs:eu-west-1:1:turns",
            "not a queue's URL",
        ),
        (
            "ORCHESTRATOR_QUEUE_URL",
            "https://sqs.eu-west-1.amazonaws.com/",
            "not a queue's URL",
        ),
        (
            "ORCHESTRATOR_QUEUE_URL",
            "https://sqs/1/turns.fifo",
            "set it to a standard queue",
        ),
        ("WORKER_QUEUE_URL", "https://sqs/1/work.fifo", "FIFO"),
        (
            "WORKER_QUEUE_URL",
            "https://sqs.eu-west-1.amazonaws.com/1/turns",
            "a queue of its own",
        ),
        ("WORKER_TAG_QUEUE_URLS", "gpu=https://sqs/1/gpu", "JSON object"),
        ("WORKER_TAG_QUEUE_URLS", r#"["https://sqs/1/gpu"]"#, "JSON object"),
        ("WORKER_TAG_QUEUE_URLS", r#"{"gpu":7}"#, "JSON object"),
        ("WORKER_TAG_QUEUE_URLS", r#"{"gpu":"https://sqs/1/gpu.fifo"}"#, "FIFO"),
        ("WORKER_TAG_QUEUE_URLS", r#"{"gpu":"gpu"}"#, "for the tag \"gpu\""),
        (
            "WORKER_TAG_QUEUE_URLS",
            r#"{"default":"https://sqs/1/x"}"#,
            "WORKER_QUEUE_URL",
        ),
        ("WORKER_TAGS", ",", "names no tag"),
        ("WORKER_TAGS", "a,b,c,d,e,f", "at most 5"),
        ("DUROXIDE_CONCURRENCY", "0", "from 1 to 1000"),
        ("DUROXIDE_CONCURRENCY", "1001", "from 1 to 1000"),
        ("DUROXIDE_CONCURRENCY", "ten", "whole number"),
        ("DUROXIDE_CONCURRENCY", "-1", "whole number"),
        ("DUROXIDE_MAX_ATTEMPTS", "0", "from 1"),
        ("DUROXIDE_ACTIVITY_ATTEMPTS", "Charge=0", "from 1"),
        ("DUROXIDE_ACTIVITY_ATTEMPTS", "Charge", "names and values"),
        ("DUROXIDE_ACTIVITY_TIMEOUTS", "Charge=2", "with a unit"),
        ("DUROXIDE_ACTIVITY_TIMEOUTS", "Charge=999ms", "at least 1s"),
        ("DUROXIDE_ON_ACTIVITY_GIVEN_UP", "ignore", "fail-activity or"),
        ("DUROXIDE_OUTBOX_ATTEMPTS", "0", "from 1"),
        ("DUROXIDE_DEAD_LETTER_DAYS", "3651", "to 3650"),
        ("DUROXIDE_ORPHAN_GRACE_SECONDS", "0", "from 1"),
        ("DUROXIDE_ON_NONDETERMINISM", "ignore", "block or fail"),
        ("DUROXIDE_ON_PANIC", "Block", "block or fail"),
        ("DUROXIDE_UNKNOWN_DAYS", "0", "from 1"),
        ("DUROXIDE_TURN_LOCK_SECONDS", "0", "from 1"),
        ("DUROXIDE_WORK_LOCK_SECONDS", "14", "from 15"),
        ("DUROXIDE_SESSION_LOCK_SECONDS", "0", "from 1"),
        ("DUROXIDE_TURN_RESERVE_MS", "3s", "whole number"),
        ("DUROXIDE_NOTIFY_TIMEOUT_MS", "0", "from 1"),
        ("DUROXIDE_WAKEUP_REACH_SECONDS", "901", "to 900"),
        ("MAINTENANCE_OVERDUE_SECONDS", "0", "from 1"),
        ("MAINTENANCE_PERIOD_SECONDS", "1m", "whole number"),
        ("MAINTENANCE_PAGE", "1001", "to 1000"),
        ("MAINTENANCE_SEARCH_MINUTES", "0", "from 1"),
        ("MAINTENANCE_SEARCH_MINUTES", "1441", "to 1440"),
        ("RETENTION_DELETE_AFTER_DAYS", "0", "from 1"),
        ("RETENTION_KEEP_EXECUTIONS", "-1", "from 1"),
        ("LOG_LEVEL", "inof", "not a level"),
        ("LOG_LEVEL", "info,duroxide=loud", "set it to off"),
        ("METRICS_NAMESPACE", "AWS/Lambda", "AWS/"),
        ("METRICS_NAMESPACE", "a namespace", "letters"),
    ] {
        let error = with(name, value).unwrap_err();
        assert_eq!(error.problems.len(), 1, "{error}");
        assert_eq!(error.problems[0].variable, name);
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(why), "{name}={value}: {error}");
        assert!(!shown.contains("hush"), "{shown}");
    }
}

#[test]
fn exactly_one_key_is_set() {
    let both = from(&[("COSMOS_KEY_SECRET_ARN", Some(ARN))]).unwrap_err().to_string();
    assert!(
        both.contains("COSMOS_KEY is set and COSMOS_KEY_SECRET_ARN is set") && !both.contains(KEY),
        "{both}"
    );
    let none = from(&[("COSMOS_KEY", None)]).unwrap_err().to_string();
    assert!(
        none.contains("COSMOS_KEY is not set") && none.contains("COSMOS_KEY_SECRET_ARN is not set"),
        "{none}"
    );
    let mistaken = from(&[("COSMOS_KEY", None), ("COSMOS_KEY_SECRET_ARN", Some(KEY))]).unwrap_err();
    let mistaken = format!("{mistaken} {mistaken:?}");
    assert!(
        mistaken.contains("not the ARN of a secret") && !mistaken.contains(KEY),
        "{mistaken}"
    );
}

#[test]
fn an_application_of_entra_id_replaces_the_key() {
    let application = [
        ("COSMOS_KEY", None),
        ("COSMOS_TENANT_ID", Some("my-tenant")),
        ("COSMOS_CLIENT_ID", Some("my-client")),
    ];
    let with = |more: &[(&str, Option<&str>)]| from(&[&application[..], more].concat());
    let config = with(&[]).unwrap();
    let CredentialSetting::Entra { settings, proof } = &config.cosmos.credential else {
        panic!("{:?}", config.cosmos);
    };
    assert_eq!(settings.authority, "https://login.microsoftonline.com");
    assert_eq!(
        (settings.tenant.as_str(), settings.client.as_str()),
        ("my-tenant", "my-client")
    );
    assert_eq!(*proof, ProofSetting::WebIdentity);
    let config = with(&[
        ("COSMOS_CLIENT_SECRET_ARN", Some(ARN)),
        ("COSMOS_AUTHORITY", Some("http://127.0.0.1:1")),
    ]);
    let CredentialSetting::Entra { settings, proof } = config.unwrap().cosmos.credential else {
        panic!("an application");
    };
    assert_eq!(settings.authority, "http://127.0.0.1:1");
    assert_eq!(proof, ProofSetting::Secret { arn: ARN.to_owned() });

    for (more, variable, why) in [
        (
            ("COSMOS_CLIENT_ID", None),
            "COSMOS_CLIENT_ID",
            "is not set, and the other",
        ),
        (
            ("COSMOS_TENANT_ID", None),
            "COSMOS_TENANT_ID",
            "is not set, and the other",
        ),
        (
            ("COSMOS_TENANT_ID", Some("hush/hush")),
            "COSMOS_TENANT_ID",
            "neither an id nor a domain",
        ),
        (
            ("COSMOS_CLIENT_ID", Some("~hush")),
            "COSMOS_TENANT_ID",
            "not an application's id",
        ),
        (
            ("COSMOS_AUTHORITY", Some("http://elsewhere.example")),
            "COSMOS_TENANT_ID",
            "plain http",
        ),
        (
            ("COSMOS_CLIENT_SECRET_ARN", Some("hush")),
            "COSMOS_CLIENT_SECRET_ARN",
            "not the ARN of a secret",
        ),
        (("COSMOS_KEY", Some(KEY)), "COSMOS_KEY", "COSMOS_TENANT_ID is set"),
        (
            ("COSMOS_TOKEN", Some("a.b.c")),
            "COSMOS_TOKEN",
            "COSMOS_TENANT_ID is set",
        ),
    ] {
        let error = with(&[more]).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert_eq!(
            (error.problems.len(), error.problems[0].variable),
            (1, variable),
            "{shown}"
        );
        assert!(
            shown.contains(why) && !shown.contains("hush") && !shown.contains(KEY),
            "{shown}"
        );
    }
}

#[test]
fn a_token_of_a_person_replaces_the_key_and_is_not_shown() {
    let token = "aGVhZA.aHVzaA.c2ln";
    let config = from(&[("COSMOS_KEY", None), ("COSMOS_TOKEN", Some(token))]).unwrap();
    assert!(matches!(config.cosmos.credential, CredentialSetting::Token(_)));
    assert!(!format!("{config:?} {:?}", config.cosmos_config()).contains("aHVzaA"));
    let error = from(&[("COSMOS_KEY", None), ("COSMOS_TOKEN", Some("hush"))]).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(
        shown.contains("az account get-access-token") && !shown.contains("hush"),
        "{shown}"
    );
}

#[test]
fn an_error_lists_all_problems() {
    let error = from(&[
        ("COSMOS_KEY", None),
        ("WORKER_QUEUE_URL", Some("w.fifo")),
        ("DUROXIDE_CONCURRENCY", Some("0")),
        ("DUROXIDE_MAX_ATTEMPTS", Some("0")),
        ("LOG_LEVEL", Some("?")),
    ])
    .unwrap_err();
    assert_eq!(error.problems.len(), 5, "{error}");
    assert_eq!(error.to_string().lines().count(), 6, "{error}");
}

#[test]
fn the_key_does_not_show_in_debug() {
    let config = from(&[]).unwrap();
    let shown = format!("{config:?} {:?}", config.cosmos_config());
    assert!(
        !shown.contains("c2VjcmV0") && !shown.contains("115, 101, 99") && shown.contains("redacted"),
        "{shown}"
    );
}

#[test]
fn the_provider_gets_its_container_and_its_attempts() {
    let config = from(&[
        ("COSMOS_KEY", None),
        ("COSMOS_KEY_SECRET_ARN", Some(ARN)),
        ("COSMOS_DATABASE", Some("db")),
        ("DUROXIDE_OUTBOX_ATTEMPTS", Some("24")),
        ("DUROXIDE_DEAD_LETTER_DAYS", Some("2")),
        ("DUROXIDE_ORPHAN_GRACE_SECONDS", Some("7200")),
    ]);
    let shown = format!("{:?}", config.unwrap().cosmos_config());
    for part in [
        "https://x.documents.azure.com",
        "\"db\"",
        "\"workflows\"",
        "max_attempts: 24",
        "letter_ttl: 172800s",
        "orphan_grace: 7200s",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
}
