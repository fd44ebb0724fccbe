//! The list of what was given up: newest first, whole, and safe to change while it is read.

use crate::support::*;
use cosmos::Clock;
use cosmos_emulator::Refusing;
use duroxide::providers::{ProviderAdmin, WorkItem};
use duroxide_cosmos::{DeadLetterCursor, DeadLetterId, DeadLetterSummary, Redriven};
use std::sync::Arc;
use std::time::Duration;
use tests::connect;
use tests::turns::*;

/// Gives up messages of `source` to these targets, all in one moment.
pub async fn give_up(fixture: &Fixture, source: &str, messages: Vec<WorkItem>) {
    let count = messages.len() as u64;
    fixture.leave_undelivered(source, messages).await;
    fixture.clock.advance(OVERDUE);
    let (listener, gives_up) = fixture.process().await;
    let own = Some(header(source));
    listener.refuse_when(move |request| {
        let is_delivery = is_creation(request) && request.partition_key != own;
        is_delivery.then(Refusing::partition_full)
    });
    assert_eq!(deliver_all(&gives_up, 100).await.dead, count);
}

/// Dead letters of one time, with each page's continuation sent as text.
async fn page(fixture: &Fixture, most: u32, after: &Option<String>) -> (Vec<DeadLetterSummary>, Option<String>) {
    let cursor: Option<DeadLetterCursor> = after
        .as_ref()
        .map(|text| serde_json::from_str(text).expect("a continuation is plain data"));
    let page = fixture
        .provider
        .dead_letters(most, cursor.as_ref())
        .await
        .expect("dead letters are listed");
    assert!(page.dead_letters.len() <= most as usize);
    let next = page
        .next
        .map(|next| serde_json::to_string(&next).expect("a continuation is plain data"));
    (page.dead_letters, next)
}

pub fn starts(names: &[&str]) -> Vec<WorkItem> {
    names.iter().map(|name| start_of(name)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_newest_first_and_whole_whatever_changes_between_its_pages() {
    let fixture = Fixture::new().await;
    for source in 0..6 {
        // Several dead letters share a moment, in one partition.
        give_up(&fixture, &format!("source-{source}"), starts(&["a", "b", "c", "d"])).await;
    }
    let (all, end) = page(&fixture, 100, &None).await;
    assert_eq!((all.len(), end), (24, None));
    assert!(all.is_sorted_by(|a, b| a.at_ms >= b.at_ms), "newest first");
    assert_eq!(
        fixture.provider.dead_letter_count().await.expect("they are counted"),
        24
    );

    let (mut seen, mut next) = (Vec::new(), None);
    let mut discarded = Vec::new();
    for round in 0.. {
        let (dead_letters, after) = page(&fixture, 5, &next).await;
        seen.extend(dead_letters);
        next = after;
        if next.is_none() {
            break;
        }
        // A new one, one that was shown, and one that was not shown yet.
        give_up(&fixture, &format!("later-{round}"), starts(&["a"])).await;
        let shown = &seen[seen.len() - 2].id;
        assert!(fixture.provider.discard(shown).await.expect("it is discarded"));
        let unseen = &all[all.len() - 1 - round].id;
        if !seen.iter().any(|dead_letter| dead_letter.id == *unseen) {
            assert!(fixture.provider.discard(unseen).await.expect("it is discarded"));
            discarded.push(unseen.clone());
        }
        assert!(round < 20, "the list does not end");
    }
    assert!(discarded.len() >= 3, "something was taken away ahead of the list");
    let expected: Vec<&DeadLetterId> = all
        .iter()
        .map(|dead_letter| &dead_letter.id)
        .filter(|id| !discarded.contains(id))
        .collect();
    let got: Vec<&DeadLetterId> = seen.iter().map(|dead_letter| &dead_letter.id).collect();
    assert_eq!(got, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_dead_letters_of_any_script_are_listed_read_and_redriven() {
    let fixture = Fixture::new().await;
    let (source, target) = ("источник/日本 🚂?#", "ziel \"ä\\ö\"");
    let data = "語\u{1F600}\"\\\n".repeat(140_000);
    give_up(&fixture, source, vec![raised(target, &data)]).await;
    // Another, so that both together are over what one page of documents may weigh.
    give_up(&fixture, "second", vec![raised(target, &data), raised(target, &data)]).await;
    fixture.world.listener().reset();
    let (dead_letters, end) = page(&fixture, 10, &None).await;
    assert_eq!((dead_letters.len(), end), (3, None));
    let bytes = fixture.world.listener().counts().response_bytes;
    assert!(bytes < 100_000, "the list holds no items: {bytes} bytes");
    let dead = dead_letters
        .iter()
        .find(|dead_letter| dead_letter.id.instance == source)
        .expect("it is listed");
    assert_eq!(dead.target.as_deref(), Some(target));
    let dead_letter = fixture
        .provider
        .dead_letter(&dead.id)
        .await
        .expect("it is read")
        .expect("it is there");
    let item: WorkItem = serde_json::from_str(dead_letter.items[0].get()).expect("a work item");
    assert!(matches!(&item, WorkItem::ExternalRaised { data: kept, .. } if *kept == data));
    assert!(
        dead_letter.items[0].get().len() > 1_500_000,
        "{}",
        dead_letter.items[0].get().len()
    );
    let redriven = fixture.provider.redrive(&dead.id).await.expect("it is redriven");
    assert_eq!(
        redriven,
        Redriven::Delivered {
            instance: target.to_owned()
        }
    );
    let messages = fixture.world.documents_of("message").await;
    let arrived: Vec<_> = messages.iter().filter(|doc| doc["pk"] == target).collect();
    assert_eq!(arrived.len(), 1);
    assert_eq!(
        arrived[0]["item"]["ExternalRaised"]["data"].as_str(),
        Some(data.as_str())
    );
}

#[tokio::test]
async fn a_dead_letter_is_discarded_once_and_nothing_else_can_be() {
    let fixture = Fixture::new().await;
    give_up(&fixture, "source", starts(&["a"])).await;
    let id = page(&fixture, 1, &None).await.0[0].id.clone();
    for other in ["instance", "", "o:x"] {
        let id = DeadLetterId {
            id: other.to_owned(),
            ..id.clone()
        };
        let error = fixture.provider.discard(&id).await.expect_err("it is no dead letter");
        assert!(error.to_string().contains("not the id of a dead letter"), "{error}");
        assert!(fixture.provider.redrive(&id).await.is_err() && fixture.provider.dead_letter(&id).await.is_err());
    }
    assert!(
        fixture.provider.get_instance_info("source").await.is_ok(),
        "the instance is still there"
    );
    assert!(fixture.provider.discard(&id).await.expect("it is discarded"));
    assert!(!fixture.provider.discard(&id).await.expect("nothing is left"));
    assert!(
        fixture
            .provider
            .dead_letter(&id)
            .await
            .expect("it can be asked for")
            .is_none()
    );
    assert!(fixture.dead_letters().await.is_empty());
}

#[tokio::test]
async fn a_dead_letter_expires_by_itself_and_goes_with_its_instance() {
    let fixture = Fixture::new().await;
    give_up(&fixture, "source", starts(&["a"])).await;
    assert_eq!(fixture.dead_letters().await[0]["ttl"], 30 * 24 * 3_600);
    let deleted = fixture
        .provider
        .delete_instances_atomic(&["source".to_owned()], true)
        .await;
    assert_eq!(deleted.expect("it is deleted").instances_deleted, 1);
    assert!(fixture.dead_letters().await.is_empty());

    let clock: Arc<dyn Clock> = Arc::clone(&fixture.clock) as Arc<dyn Clock>;
    let config = fixture
        .world
        .builder()
        .clock(clock)
        .dead_letter_ttl(Duration::from_secs(60));
    let brief = connect(config).await;
    crate::giving_up::give_up_turn(&brief, "bad", "[]").await;
    assert_eq!(fixture.dead_letters().await[0]["ttl"], 60);
}
