use super::*;
use duroxide_cosmos::DeadLetterKind;
use serde_json::json;

const PLACE: &str = "4:001760000000000:0123456789abcdef";

fn read(asked: Value) -> DeadLettersRequest {
    DeadLettersRequest::read(&asked).unwrap()
}

fn id() -> DeadLetterId {
    DeadLetterId {
        instance: "a".to_owned(),
        id: "dead:t:1".to_owned(),
    }
}

#[test]
fn each_verb_is_read() {
    let cursor: DeadLetterCursor = serde_json::from_value(json!(PLACE)).unwrap();
    let list = read(json!({"list": {"limit": 7, "after": PLACE, "kind": "undeliverable", "instance": "a"}}));
    let filter = DeadLetterFilter {
        kind: Some(DeadLetterKind::Undeliverable),
        instance: Some("a".to_owned()),
    };
    let after = Some(cursor);
    assert_eq!(
        list,
        DeadLettersRequest::List {
            filter,
            limit: 7,
            after: after.clone()
        }
    );
    let everything = DeadLettersRequest::List {
        filter: DeadLetterFilter::default(),
        limit: 20,
        after: None,
    };
    assert_eq!(read(json!({"list": {}})), everything);
    assert_eq!(
        read(json!({"list": {"after": null}})),
        everything,
        "as the last page says it"
    );
    assert_eq!(
        read(json!({"read": {"instance": "a", "id": "dead:t:1"}})),
        DeadLettersRequest::Read(id())
    );
    let named = json!({"ids": [{"instance": "a", "id": "dead:t:1"}]});
    assert_eq!(read(json!({"discard": named})), DeadLettersRequest::Discard(vec![id()]));
    for (asked, which) in [
        (named, DeadLetterSelection::Ids(vec![id()])),
        (
            json!({"all": true}),
            DeadLetterSelection::Filter(DeadLetterFilter::default()),
        ),
    ] {
        let redrive = DeadLettersRequest::Redrive {
            which,
            limit: 100,
            after: None,
        };
        assert_eq!(read(json!({"redrive": asked})), redrive);
    }
    let DeadLettersRequest::Redrive {
        limit: 9, after: there, ..
    } = read(json!({"redrive": {"kind": "poison-activity", "limit": 9, "after": PLACE}}))
    else {
        panic!("limits are read")
    };
    assert_eq!(there, after);
}

#[test]
fn a_mistake_is_refused_with_its_field_and_what_to_send() {
    let many: Vec<Value> = vec![json!({"instance": "a", "id": "dead:t:1"}); 1_001];
    for (asked, field, send) in [
        (json!(null), "deadLetters", "one of list, read"),
        (json!("list"), "deadLetters", "one of list, read"),
        (json!({}), "deadLetters", "one of list, read"),
        (
            json!({"list": {}, "redrive": {"all": true}}),
            "deadLetters",
            "one of list, read",
        ),
        (
            json!({"purge": {}}),
            "deadLetters.purge",
            "list, read, redrive, discard",
        ),
        (json!({"list": []}), "deadLetters.list", "an object"),
        (json!({"list": {"count": 3}}), "deadLetters.list.count", "limit, after"),
        (json!({"list": {"limit": -3}}), "deadLetters.list.limit", "1 to 1000"),
        (json!({"list": {"limit": 1_001}}), "deadLetters.list.limit", "1 to 1000"),
        (json!({"list": {"after": 3}}), "deadLetters.list.after", "the next"),
        (
            json!({"list": {"after": "yesterday"}}),
            "deadLetters.list.after",
            "the next",
        ),
        (
            json!({"list": {"kind": "strange"}}),
            "deadLetters.list.kind",
            "poison-turn",
        ),
        (json!({"list": {"instance": ""}}), "deadLetters.list.instance", "a text"),
        (json!({"read": {}}), "deadLetters.read.instance", "a text"),
        (json!({"read": {"instance": "a"}}), "deadLetters.read.id", "a text"),
        (
            json!({"read": {"instance": "a", "id": 7}}),
            "deadLetters.read.id",
            "a text",
        ),
        (json!({"redrive": {}}), "deadLetters.redrive", "\"all\": true"),
        (json!({"redrive": {"limit": 5}}), "deadLetters.redrive", "\"all\": true"),
        (
            json!({"redrive": {"all": false}}),
            "deadLetters.redrive",
            "\"all\": true",
        ),
        (
            json!({"redrive": {"all": true, "kind": "poison-turn"}}),
            "deadLetters.redrive",
            "in one way",
        ),
        (
            json!({"redrive": {"ids": [], "all": true}}),
            "deadLetters.redrive",
            "in one way",
        ),
        (json!({"redrive": {"ids": []}}), "deadLetters.redrive.ids", "1 to 1000"),
        (
            json!({"redrive": {"ids": many}}),
            "deadLetters.redrive.ids",
            "1 to 1000",
        ),
        (
            json!({"redrive": {"ids": ["x"]}}),
            "deadLetters.redrive.ids[0]",
            "instance and id",
        ),
        (
            json!({"redrive": {"ids": [{"instance": "a", "id": "dead:t:1"}], "limit": 1}}),
            "deadLetters.redrive",
            "without limit",
        ),
        (
            json!({"redrive": {"all": true, "limit": 10_001}}),
            "deadLetters.redrive.limit",
            "1 to 10000",
        ),
        (json!({"discard": {"all": true}}), "deadLetters.discard.all", "ids"),
        (json!({"discard": {}}), "deadLetters.discard.ids", "1 to 1000"),
    ] {
        let error = DeadLettersRequest::read(&asked).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        let text = error.to_string();
        assert!(text.contains(send) && text.contains("nothing was changed"), "{text}");
    }
}
