//! One queue: pure state; the caller passes the time.
//!
//! A message is *hidden* until it is visible: at first for its delay, after each receive for the visibility timeout. A
//! message that was received as often as allowed goes to the dead-letter queue instead of to a receiver. Messages come in
//! the order of their visibility, which a standard queue does not promise and usually has.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// The settings of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    /// Its name.
    pub(crate) name: String,
    /// How long a received message is hidden.
    pub(crate) visibility: Duration,
    /// Where messages go that were received as often as allowed.
    pub(crate) redrive: Option<Redrive>,
}

/// When a message goes to a dead-letter queue, and to which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redrive {
    /// The name of the dead-letter queue.
    pub(crate) dead_letters: String,
    /// After this many receives.
    pub(crate) max_receives: u32,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The id, which never changes.
    pub(crate) id: String,
    /// The body.
    pub(crate) body: String,
    /// When it was sent (Unix ms).
    pub(crate) sent_ms: u64,
    /// How often it was received.
    pub(crate) receives: u32,
    /// When it was received first (Unix ms).
    pub(crate) first_received_ms: Option<u64>,
}

/// A message that a receiver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The message.
    pub(crate) message: Message,
    /// The receipt handle, which deletes it or changes its visibility.
    pub(crate) receipt: String,
}

/// How many messages a queue has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Depth {
    /// Receivable now.
    pub visible: usize,
    /// Received and not deleted.
    pub in_flight: usize,
    /// Hidden by their delay.
    pub delayed: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) settings: QueueSettings,
    /// By the time of visibility, then in the order of sending.
    hidden: BTreeMap<Place, Entry>,
    receipts: HashMap<String, Place>,
    sent: u64,
}

/// When a message becomes visible, and its number in the order of sending.
type Place = (Instant, u64);

#[derive(Debug)]
struct Entry {
    message: Message,
    /// The receipt of the last receive.
    receipt: Option<String>,
}

/// The outcome of a receive.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) received: Vec<Received>,
    /// For the dead-letter queue.
    pub(crate) dead: Vec<Message>,
}

/// A moment by both clocks: one to compare, one to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) unix_ms: u64,
}

impl Queue {
    pub(crate) fn new(settings: QueueSettings) -> Queue {
        Queue {
            settings,
            hidden: BTreeMap::new(),
            receipts: HashMap::new(),
            sent: 0,
        }
    }

    /// Adds a message that is visible after its delay.
    pub(crate) fn send(&mut self, message: Message, delay: Duration, now: Now) {
        self.sent += 1;
        let receipt = None;
        self.hidden
            .insert((now.instant + delay, self.sent), Entry { message, receipt });
    }

    /// Takes up to `most` visible messages, and hides them for a while.
    pub(crate) fn receive(&mut self, most: usize, visibility: Option<Duration>, now: Now) -> Taken {
        let mut taken = Taken::default();
        // Put back at the end, so that a message with a visibility timeout of zero comes once in each receive.
        let mut hidden = Vec::new();
        while taken.received.len() < most {
            let Some(first) = self.hidden.first_entry().filter(|entry| entry.key().0 <= now.instant) else {
                break;
            };
            let (_, sequence) = *first.key();
            let Entry { mut message, receipt } = first.remove();
            if let Some(earlier) = receipt {
                self.receipts.remove(&earlier);
            }
            let limit = self.settings.redrive.as_ref().map(|redrive| redrive.max_receives);
            if limit.is_some_and(|limit| message.receives >= limit) {
                taken.dead.push(message);
                continue;
            }
            message.receives += 1;
            message.first_received_ms.get_or_insert(now.unix_ms);
            let until = now.instant + visibility.unwrap_or(self.settings.visibility);
            let receipt = format!("{}-{}-{}", message.id, sequence, message.receives);
            self.receipts.insert(receipt.clone(), (until, sequence));
            let entry = Entry {
                message: message.clone(),
                receipt: Some(receipt.clone()),
            };
            hidden.push(((until, sequence), entry));
            taken.received.push(Received { message, receipt });
        }
        self.hidden.extend(hidden);
        taken
    }

    /// Removes a message. Returns false for the receipt of an earlier receive or of a message that is gone.
    pub(crate) fn delete(&mut self, receipt: &str) -> bool {
        let place = self.receipts.remove(receipt);
        place.is_some_and(|place| self.hidden.remove(&place).is_some())
    }

    /// Hides a received message for this long from now. Returns false for an outdated receipt, or if the message has
    /// become visible again.
    pub(crate) fn change_visibility(&mut self, receipt: &str, hidden: Duration, now: Now) -> bool {
        let Some(place) = self.receipts.get_mut(receipt).filter(|place| place.0 > now.instant) else {
            return false;
        };
        let Some(entry) = self.hidden.remove(place) else {
            return false;
        };
        place.0 = now.instant + hidden;
        self.hidden.insert(*place, entry);
        true
    }

    /// When the next message is visible; `None` for an empty queue.
    pub(crate) fn next_visible(&self) -> Option<Instant> {
        self.hidden.first_key_value().map(|(place, _)| place.0)
    }

    /// Removes everything.
    pub(crate) fn purge(&mut self) {
        self.hidden.clear();
        self.receipts.clear();
    }

    pub(crate) fn depth(&self, now: Now) -> Depth {
        let mut depth = Depth::default();
        for ((visible_at, _), entry) in &self.hidden {
            let count = match (*visible_at <= now.instant, entry.message.receives) {
                (true, _) => &mut depth.visible,
                (false, 0) => &mut depth.delayed,
                (false, _) => &mut depth.in_flight,
            };
            *count += 1;
        }
        depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn queue(max_receives: u32) -> (Queue, Now) {
        let queue = Queue::new(QueueSettings {
            name: "turns".to_owned(),
            visibility: SECOND * 10,
            redrive: Some(Redrive {
                dead_letters: "dead".to_owned(),
                max_receives,
            }),
        });
        let now = Now {
            instant: Instant::now(),
            unix_ms: 1_000,
        };
        (queue, now)
    }

    fn later(now: Now, by: Duration) -> Now {
        Now {
            instant: now.instant + by,
            unix_ms: now.unix_ms + by.as_millis() as u64,
        }
    }

    fn message(id: &str) -> Message {
        Message {
            id: id.to_owned(),
            body: format!("body of {id}"),
            sent_ms: 0,
            receives: 0,
            first_received_ms: None,
        }
    }

    fn ids(taken: &Taken) -> Vec<&str> {
        taken
            .received
            .iter()
            .map(|received| received.message.id.as_str())
            .collect()
    }

    #[test]
    fn a_delayed_message_is_hidden_until_its_time() {
        let (mut queue, now) = queue(3);
        queue.send(message("later"), SECOND * 5, now);
        queue.send(message("now"), Duration::ZERO, now);
        assert_eq!(ids(&queue.receive(10, None, now)), ["now"]);
        assert_eq!(queue.next_visible(), Some(now.instant + SECOND * 5));
        let depth = queue.depth(now);
        assert_eq!((depth.visible, depth.in_flight, depth.delayed), (0, 1, 1));
        assert_eq!(ids(&queue.receive(10, None, later(now, SECOND * 5))), ["later"]);
    }

    #[test]
    fn a_received_message_comes_again_unless_it_is_deleted() {
        let (mut queue, now) = queue(3);
        queue.send(message("a"), Duration::ZERO, now);
        queue.send(message("b"), Duration::ZERO, now);
        let first = queue.receive(1, None, now);
        let second = queue.receive(10, None, now);
        assert_eq!((ids(&first), ids(&second)), (vec!["a"], vec!["b"]));
        assert!(queue.delete(&second.received[0].receipt));
        assert!(!queue.delete(&second.received[0].receipt), "it is gone");
        let again = queue.receive(10, None, later(now, SECOND * 10));
        assert_eq!(ids(&again), ["a"]);
        assert_eq!(again.received[0].message.receives, 2);
        assert_eq!(again.received[0].message.first_received_ms, Some(1_000));
        assert!(!queue.delete(&first.received[0].receipt), "of an earlier receive");
        assert!(queue.delete(&again.received[0].receipt));
        assert_eq!(queue.depth(now), Depth::default());
    }

    #[test]
    fn a_changed_visibility_counts_from_now() {
        let (mut queue, now) = queue(3);
        queue.send(message("a"), Duration::ZERO, now);
        let taken = queue.receive(1, Some(SECOND * 100), now);
        assert!(queue.change_visibility(&taken.received[0].receipt, SECOND, now));
        assert!(queue.receive(1, None, now).received.is_empty());
        assert_eq!(ids(&queue.receive(1, None, later(now, SECOND))), ["a"]);
        assert!(!queue.change_visibility(&taken.received[0].receipt, SECOND, now));
    }

    #[test]
    fn a_message_that_is_visible_again_comes_once_in_each_receive_and_is_not_in_flight() {
        let (mut queue, now) = queue(3);
        queue.send(message("a"), Duration::ZERO, now);
        queue.send(message("b"), Duration::ZERO, now);
        let taken = queue.receive(10, Some(Duration::ZERO), now);
        assert_eq!(ids(&taken), ["a", "b"]);
        assert_eq!(taken.received[0].message.receives, 1);
        assert!(!queue.change_visibility(&taken.received[0].receipt, SECOND, now));
        assert_eq!(ids(&queue.receive(10, None, now)), ["a", "b"], "it was not hidden");

        let (mut queue, now) = self::queue(3);
        queue.send(message("a"), Duration::ZERO, now);
        let taken = queue.receive(1, Some(SECOND), now);
        let receipt = &taken.received[0].receipt;
        assert!(
            !queue.change_visibility(receipt, SECOND, later(now, SECOND)),
            "its visibility timeout has ended"
        );
        assert!(queue.delete(receipt), "it can still be deleted");
    }

    #[test]
    fn a_message_received_as_often_as_allowed_is_dead_lettered_and_does_not_block_the_next() {
        let (mut queue, mut now) = queue(2);
        queue.send(message("bad"), Duration::ZERO, now);
        for _ in 0..2 {
            assert_eq!(ids(&queue.receive(1, None, now)), ["bad"]);
            now = later(now, SECOND * 10);
        }
        queue.send(message("good"), Duration::ZERO, now);
        let taken = queue.receive(1, None, now);
        assert_eq!(ids(&taken), ["good"]);
        assert_eq!((taken.dead.len(), taken.dead[0].receives), (1, 2));
        assert_eq!(taken.dead[0].id, "bad");
    }
}
