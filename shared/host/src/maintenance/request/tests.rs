use super::*;
use serde_json::json;

#[test]
fn the_schedule_and_an_empty_request_mean_all_passes() {
    for payload in [
        json!({}),
        json!({"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}, "resources": ["arn"]}),
        json!({"source": "aws.events"}),
        json!({"source": "aws.scheduler", "time": "2026-01-01T00:00:00Z"}),
    ] {
        let request = MaintenanceRequest::from_payload(&payload).unwrap();
        assert_eq!(request, MaintenanceRequest::default(), "{payload}");
    }
}

#[test]
fn a_direct_request_names_passes_and_limits() {
    let payload = json!({"passes": ["retention", "outbox", "retention"], "pageSize": 7,
        "retention": {"deleteAfterDays": 2, "keepExecutions": 3}});
    let request = MaintenanceRequest::from_payload(&payload).unwrap();
    assert_eq!(request.passes, [PassName::Outbox, PassName::Retention]);
    let retention = Retention {
        delete_after: Some(Duration::from_secs(172_800)),
        keep_executions: Some(3),
    };
    assert_eq!((request.page_size, request.retention), (Some(7), Some(retention)));
    for pass in PassName::ALL {
        let request = MaintenanceRequest::from_payload(&json!({"passes": [pass.as_str()]})).unwrap();
        assert_eq!(request.passes, [pass]);
        assert_eq!(serde_json::to_value(pass).unwrap(), pass.as_str());
    }
}

#[test]
fn a_mistake_is_refused_with_its_field_and_what_to_send() {
    let long = "x".repeat(100_000);
    for (payload, field, send) in [
        (json!(null), "the payload", "send {}"),
        (json!("outbox"), "the payload", "send {}"),
        (json!(["outbox"]), "the payload", "send {}"),
        (json!(7), "the payload", "send {}"),
        (json!({"pass": "outbox"}), "pass", "passes, pageSize, retention"),
        (json!({"passes": "outbox"}), "passes", "a list"),
        (json!({"passes": []}), "passes", "a list"),
        (
            json!({"passes": ["outbox", "inbox"]}),
            "passes[1]",
            "outbox, unfinished",
        ),
        (json!({"passes": [1]}), "passes[0]", "outbox, unfinished"),
        (json!({"passes": [long]}), "passes[0]", "outbox, unfinished"),
        (json!({"passes": ["Outbox"]}), "passes[0]", "outbox, unfinished"),
        (json!({"detail-type": "Scheduled Event"}), "detail-type", "send only"),
        (
            json!({"detail-type": "anything", "version": "0"}),
            "detail-type",
            "send only",
        ),
        (
            json!({"source": "aws.events", "detail-type": "AWS API Call via CloudTrail", "detail": {}}),
            "detail",
            "send only",
        ),
        (
            json!({"source": "aws.s3", "detail-type": "Object Created"}),
            "detail-type",
            "send only",
        ),
        (json!({"source": "me", "passes": ["outbox"]}), "source", "send only"),
        (
            json!({"source": "aws.events", "detail-type": "Scheduled Event", "passes": ["outbox"]}),
            "passes",
            "without source",
        ),
        (
            json!({"source": "aws.scheduler", "pageSize": 3}),
            "pageSize",
            "without source",
        ),
        (
            json!({"source": "aws.events", "retention": {"deleteAfterDays": 1}}),
            "retention",
            "without source",
        ),
        (
            json!({"source": "aws.events", "deadLetters": {}}),
            "deadLetters",
            "without source",
        ),
        (json!({"pageSize": 0}), "pageSize", "from 1 to 10000"),
        (json!({"pageSize": -1}), "pageSize", "from 1 to 10000"),
        (json!({"pageSize": 1.5}), "pageSize", "from 1 to 10000"),
        (json!({"pageSize": "10"}), "pageSize", "from 1 to 10000"),
        (json!({"pageSize": null}), "pageSize", "from 1 to 10000"),
        (json!({"pageSize": 10_001}), "pageSize", "from 1 to 10000"),
        (json!({"retention": 30}), "retention", "deleteAfterDays"),
        (
            json!({"passes": ["outbox"], "retention": {"deleteAfterDays": 3}}),
            "retention",
            "send both",
        ),
        (json!({"retention": {}}), "retention", "leave it out"),
        (json!({"retention": {"days": 3}}), "retention.days", "deleteAfterDays"),
        (
            json!({"retention": {"deleteAfterDays": 0}}),
            "retention.deleteAfterDays",
            "from 1",
        ),
        (
            json!({"retention": {"deleteAfterDays": 99_999_999}}),
            "retention.deleteAfterDays",
            "36500",
        ),
        (
            json!({"retention": {"keepExecutions": -2}}),
            "retention.keepExecutions",
            "from 1",
        ),
    ] {
        let error = MaintenanceRequest::from_payload(&payload).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        let text = error.to_string();
        assert!(text.contains(send) && text.contains("nothing was changed"), "{text}");
        assert!(text.len() < 300, "the payload is not repeated: {}", text.len());
    }
}
