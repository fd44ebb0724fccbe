//! Documents with a time to live expire in time, and nothing else does.

use crate::giving_up::give_up_turn;
use crate::support::*;
use serde_json::Value;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Everything in the store, in one order.
async fn everything(fixture: &Fixture) -> Vec<Value> {
    let mut all = fixture.world.documents().await;
    all.sort_by_key(|doc| (doc["pk"].to_string(), doc["id"].to_string()));
    all
}

fn without(all: &[Value], kind: &str) -> Vec<Value> {
    all.iter().filter(|doc| doc["type"] != kind).cloned().collect()
}

#[tokio::test]
async fn receipts_and_dead_letters_expire_each_in_its_time_and_nothing_else_does() {
    let fixture = Fixture::new().await;
    // A receipt: a message that maintenance delivered, and that was consumed.
    fixture.leave_starts_undelivered("source", &["target"]).await;
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&fixture.provider, 100).await.done, 1);
    fixture.consume("target").await;
    // Brief ones: the starts of `source` and `bad`, which clients have sent.
    give_up_turn(&fixture.provider, "bad", "[]").await;
    // Fixture and messages that are still open.
    fixture.leave_starts_undelivered("debtor", &["waiting"]).await;
    let dead_letter = fixture
        .provider
        .dead_letters(10, None)
        .await
        .expect("dead letters are listed");
    let dead_letter = &dead_letter.dead_letters[0].id;

    let server = fixture.world.server();
    let all = everything(&fixture).await;
    let count = |all: &[Value], kind: &str| all.iter().filter(|doc| doc["type"] == kind).count();
    let long = |doc: &Value| doc["type"] == "receipt" && doc["pk"] == "target";
    assert_eq!((count(&all, "receipt"), count(&all, "dead-letter")), (4, 1));
    assert!(count(&all, "intent") >= 1 && count(&all, "instance") >= 3, "{all:#?}");

    server.expire_as_if(HOUR - HOUR / 24).await;
    assert_eq!(everything(&fixture).await, all, "too early for everything");
    server.expire_as_if(HOUR).await;
    let (receipt, others): (Vec<Value>, Vec<Value>) = all.iter().cloned().partition(long);
    assert_eq!(receipt.len(), 1, "of a message that another instance has sent");
    let all: Vec<Value> = all
        .into_iter()
        .filter(|doc| doc["type"] != "receipt" || long(doc))
        .collect();
    assert_eq!(
        everything(&fixture).await,
        all,
        "without the receipts of clients' messages"
    );
    server.expire_as_if(30 * DAY - DAY / 24).await;
    assert_eq!(everything(&fixture).await, all, "too early for the dead letter");
    server.expire_as_if(30 * DAY).await;
    let all = without(&all, "dead-letter");
    assert_eq!(
        everything(&fixture).await,
        all,
        "the receipt outlives what can be redriven"
    );
    server.expire_as_if(37 * DAY).await;
    let all = without(&others, "receipt");
    let all = without(&all, "dead-letter");
    assert_eq!(everything(&fixture).await, all);
    server.expire_as_if(10_000 * DAY).await;
    assert_eq!(everything(&fixture).await, all, "the rest is there for good");

    assert_eq!(fixture.provider.dead_letter_count().await.expect("they are counted"), 0);
    let gone = fixture
        .provider
        .dead_letter(dead_letter)
        .await
        .expect("it can be asked for");
    assert!(gone.is_none());
    // What was open is still done.
    fixture.clock.advance(OVERDUE);
    assert_eq!(deliver_all(&fixture.provider, 100).await.done, 1);
    fixture.assert_one_message_each(&["waiting"]).await;
}
