//! The times of functions, queues, locks and schedule agree, for every choice of parameters.
//!
//! The rules are in `agreement`; the numbers are the template's own.

use crate::agreement::{Timing, VISIBILITY_FACTOR, near_timeout};
use crate::template::{Parameters, Template, parameters, text};
use anyhow::Result;
use duroxide_lambda::config::Config;
use serde_json::Value;
use std::time::Duration;

/// The allowed values of a parameter.
fn allowed(template: &Template, name: &str) -> Vec<String> {
    let values = template.source["Parameters"][name]["AllowedValues"].as_array().unwrap();
    values.iter().map(text).collect()
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs(text(value).parse().unwrap())
}

/// The times of the function and queue whose names begin with `of`.
fn timing(template: &Template, of: &str, all: &Parameters) -> Timing {
    let property = |resource: String, path: &[&str]| {
        let properties = &template.transformed["Resources"][&resource]["Properties"];
        let value = path.iter().fold(properties, |value, part| &value[part]);
        assert!(!value.is_null(), "{resource} has no {path:?}");
        template.resolve(value, all)
    };
    let variable = |name: &str| {
        let of = &template.transformed["Resources"][format!("{of}Function")]["Properties"]["Environment"];
        let value = of["Variables"].get(name)?;
        let value = template.resolve(value, all);
        // Addresses of resources are not resolved here; any will do.
        Some(match &value {
            Value::Object(_) if name == "COSMOS_KEY_SECRET_ARN" => "arn:aws:secretsmanager:x".to_owned(),
            Value::Object(_) if name == "WORKER_TAG_QUEUE_URLS" => "{}".to_owned(),
            Value::Object(_) => format!("https://sqs.example.com/1/{name}"),
            scalar => text(scalar),
        })
    };
    let config = Config::from_variables(variable).unwrap();
    let number = |value: Value| text(&value).parse().unwrap();
    let queue = format!("{of}Queue");
    let wakeups = format!("{of}FunctionWakeups");
    Timing {
        function: seconds(&property(format!("{of}Function"), &["Timeout"])),
        visibility: seconds(&property(queue.clone(), &["VisibilityTimeout"])),
        max_receive_count: number(property(queue.clone(), &["RedrivePolicy", "maxReceiveCount"])),
        retention: seconds(&property(queue, &["MessageRetentionPeriod"])),
        dead_retention: seconds(&property(format!("{of}DeadLetters"), &["MessageRetentionPeriod"])),
        batch_size: number(property(wakeups, &["BatchSize"])),
        period: seconds(&property(
            "MaintenanceFunction".to_owned(),
            &["Environment", "Variables", "MAINTENANCE_PERIOD_SECONDS"],
        )),
        maintenance: seconds(&property("MaintenanceFunction".to_owned(), &["Timeout"])),
        limits: config.limits,
    }
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn the_times_agree_whatever_is_chosen() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let mut checked = 0;
    for of in ["Orchestrator", "Worker", "TaggedWorker"] {
        for timeout in allowed(&template, &format!("{of}Timeout")) {
            for attempts in allowed(&template, "MaxAttempts") {
                for minutes in allowed(&template, "MaintenanceMinutes") {
                    for batch in ["1", "10"] {
                        let given = [
                            (format!("{of}Timeout"), timeout.clone()),
                            (format!("{of}BatchSize"), batch.to_owned()),
                            ("WorkerTag".to_owned(), "gpu".to_owned()),
                            ("MaxAttempts".to_owned(), attempts.clone()),
                            ("MaintenanceMinutes".to_owned(), minutes.clone()),
                        ];
                        let mut all = template.complete(&parameters(&[]));
                        all.extend(given.clone());
                        let timing = timing(&template, of, &all);
                        assert_eq!(timing.problems(), Vec::<String>::new(), "{of} {given:?}");
                        assert!(timing.visibility > timing.function);
                        checked += 1;
                    }
                }
            }
        }
    }
    assert_eq!(checked, (4 + 6 + 6) * 3 * 3 * 2);
    Ok(())
}

#[tokio::test]
#[ignore = "exhaustive: sam from PyPI"]
async fn each_table_is_consistent_with_its_keys() -> Result<()> {
    let template = Template::read(&parameters(&[])).await?;
    let tables = template.section("Mappings");
    for (timeout, row) in tables["Timeout"].as_object().unwrap() {
        let timeout = Duration::from_secs(timeout.parse()?);
        assert_eq!(
            row["Visibility"],
            (timeout * VISIBILITY_FACTOR).as_secs(),
            "{timeout:?}"
        );
        assert_eq!(
            u128::from(row["NearTimeoutMs"].as_u64().unwrap()),
            near_timeout(timeout).as_millis()
        );
    }
    for (minutes, row) in tables["Period"].as_object().unwrap() {
        let count: u64 = minutes.parse()?;
        let unit = if count == 1 { "minute" } else { "minutes" };
        assert_eq!(row["Schedule"], format!("rate({count} {unit})"));
        assert_eq!(row["Seconds"], count * 60);
        let timeout = Duration::from_secs(row["TimeoutSeconds"].as_u64().unwrap());
        assert_eq!(
            u128::from(row["NearTimeoutMs"].as_u64().unwrap()),
            near_timeout(timeout).as_millis()
        );
    }
    Ok(())
}
