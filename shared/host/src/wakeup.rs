//! A wakeup and its wire format: the body of one SQS message.
//!
//! ```json
//! {"v":1,"turn":{"instance":"order-7","execution":1},"consistency":"0:-1#12"}
//! {"v":1,"work":{"instance":"order-7","execution":1,"activity":3,"name":"charge","tag":"gpu","session":"cart",
//!                "etag":"\"00004f2a-0000-0700-0000-690f6a3c0000\"","schema":1},"due":1760000000000}
//! ```
//!
//! `due` is when there is something to do, and `also` lists later moments of the same second, in ms after `due`: timers that
//! share the wakeup, of which each is served at its time.
//!
//! `etag` and `schema` name the version in which the work item was written: the worker claims it in that version without
//! reading it first. A wakeup that is sent again has neither, because somebody may have written the item since.
//!
//! ```json
//! {"v":1,"turn":{"instance":"duroxide:batches"},"batch":"2f6c"}
//! ```
//!
//! is the next step of a batch. A release that does not know `batch` takes it for the turn of an instance that does not exist, and finds
//! nothing to do: maintenance wakes the batch again.
//!
//! `"probe":{"queue":"work","sent":1760000000000}` asks the receiver to note for maintenance that it came through the queue.
//!
//! A wakeup names a target. Whatever else it carries only spares the reader a request: the store decides. Fields that
//! this version does not know are ignored, so that a newer sender can add some; another `v` is refused, because there the
//! meaning has changed. The text is pure ASCII, because SQS refuses some characters that an instance id may have.

use cosmos::Etag;
use duroxide_cosmos::{CosmosProvider, Target, WorkTarget, WorkVersion};
use serde::{Deserialize, Serialize};

/// The version that this build writes and reads.
const VERSION: u64 = 1;
/// The most bytes of consistency tokens that a wakeup carries: those of some sixty physical partitions.
const TOKEN_BYTES: usize = 2_000;
/// The longest name of an activity that a wakeup carries: it is for the log only.
const NAME_BYTES: usize = 256;

/// The message that a target has something to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wakeup {
    /// Who has something to do.
    pub target: Target,
    /// What the sender had seen of the store, so that the reader sees what the sender wrote.
    pub consistency_token: Option<String>,
    /// From when on there is something to do (Unix ms, by the writer's clock): a wakeup may come early.
    pub due_ms: Option<u64>,
    /// When there is something more to do: later than `due_ms`, in order.
    pub also_due_ms: Vec<u64>,
    /// How often this wakeup was sent again because its target was busy.
    pub tries: u32,
    /// The execution that a turn is expected to belong to.
    pub execution: Option<u64>,
    /// Maintenance sent it, because its target is overdue: an earlier attempt may have ended its process.
    pub overdue: bool,
    /// Maintenance wants to know when it has come through its queue.
    pub probe: Option<Probe>,
}

/// What shows that a queue holds nothing any more that was sent before it.
///
/// It is a part of a wakeup for a target that is overdue anyway: a function of an older release serves that wakeup as any
/// other and ignores the probe.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Probe {
    /// The name of the queue.
    pub queue: String,
    /// When it was sent (Unix ms, by the clock of maintenance).
    #[serde(rename = "sent")]
    pub sent_ms: u64,
}

/// Why a message is not a wakeup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WakeupError {
    /// It is not the JSON of a wakeup.
    #[error(
        "the message is not a wakeup: {0}; only this application should send to this queue, check who else has \
         `sqs:SendMessage`"
    )]
    Malformed(#[source] serde_json::Error),
    /// It was written by another version.
    #[error(
        "the wakeup has version {found} and this function knows {VERSION}: deploy all functions from one release, \
         then redrive the dead-letter queue"
    )]
    UnknownVersion {
        /// What it says.
        found: u64,
    },
    /// It names no target, or two.
    #[error("the wakeup must name exactly one of `turn` and `work`")]
    NoTarget,
    /// It names the empty instance.
    #[error("the wakeup names an instance without an id")]
    EmptyInstance,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<WireTurn>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<WireWork>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    consistency: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    tries: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    overdue: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probe: Option<Probe>,
}

#[derive(Serialize, Deserialize)]
struct WireTurn {
    instance: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct WireWork {
    instance: String,
    execution: u64,
    activity: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    etag: Option<Etag>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<u64>,
}

impl From<WorkTarget> for WireWork {
    fn from(work: WorkTarget) -> WireWork {
        let (etag, schema) = work.written.map(|written| (written.etag, written.schema)).unzip();
        WireWork {
            instance: work.instance,
            execution: work.execution,
            activity: work.activity,
            name: work.name.filter(|name| name.len() <= NAME_BYTES),
            tag: work.tag,
            session: work.session,
            etag,
            schema,
        }
    }
}

impl From<WireWork> for WorkTarget {
    fn from(wire: WireWork) -> WorkTarget {
        WorkTarget {
            instance: wire.instance,
            execution: wire.execution,
            activity: wire.activity,
            name: wire.name,
            tag: wire.tag,
            session: wire.session,
            written: wire
                .etag
                .zip(wire.schema)
                .map(|(etag, schema)| WorkVersion { etag, schema }),
        }
    }
}

fn is_zero(tries: &u32) -> bool {
    *tries == 0
}

impl Wakeup {
    /// A wakeup for the next turn of an instance.
    pub fn turn(instance: impl Into<String>) -> Wakeup {
        Wakeup::to(Target::Turn {
            instance: instance.into(),
        })
    }

    /// A wakeup for one activity.
    pub fn work(work: WorkTarget) -> Wakeup {
        Wakeup::to(Target::Work(work))
    }

    /// A wakeup for the next step of a batch.
    pub fn batch(id: impl Into<String>) -> Wakeup {
        Wakeup::to(Target::Batch { id: id.into() })
    }

    /// A wakeup for a target.
    pub fn to(target: Target) -> Wakeup {
        Wakeup {
            target,
            consistency_token: None,
            due_ms: None,
            also_due_ms: Vec::new(),
            tries: 0,
            execution: None,
            overdue: false,
            probe: None,
        }
    }

    /// All moments at which there is something to do, in order.
    pub fn dues(&self) -> impl Iterator<Item = u64> {
        self.due_ms.into_iter().chain(self.also_due_ms.iter().copied())
    }

    /// Lists these moments, which are in order, in place of others.
    pub(crate) fn set_dues(&mut self, dues: &[u64]) {
        self.due_ms = dues.first().copied();
        self.also_due_ms = dues.iter().skip(1).copied().collect();
    }

    /// The message's body.
    pub fn encode(&self) -> String {
        let turn = |instance: String, execution| Some(WireTurn { instance, execution });
        let (turn, work, batch) = match self.target.clone() {
            Target::Turn { instance } => (turn(instance, self.execution), None, None),
            Target::Work(work) => (None, Some(work.into()), None),
            Target::Batch { ref id } => (turn(self.target.instance().to_owned(), None), None, Some(id.clone())),
        };
        let first = self.due_ms.unwrap_or(0);
        let also = self.also_due_ms.iter().map(|due| due.saturating_sub(first));
        let wire = Wire {
            v: VERSION,
            turn,
            work,
            batch,
            consistency: self.consistency_token.clone(),
            due: self.due_ms,
            also: also.collect(),
            tries: self.tries,
            overdue: self.overdue,
            probe: self.probe.clone(),
        };
        ascii(&serde_json::to_string(&wire).expect("a wakeup is strings and numbers, which have a JSON form"))
    }

    /// Reads a message's body.
    ///
    /// # Errors
    /// When it is no wakeup, or one of another version.
    pub fn decode(body: &str) -> Result<Wakeup, WakeupError> {
        // The version first: the rest of another version may have any shape.
        let Version { v } = serde_json::from_str(body).map_err(WakeupError::Malformed)?;
        if v != VERSION {
            return Err(WakeupError::UnknownVersion { found: v });
        }
        let wire: Wire = serde_json::from_str(body).map_err(WakeupError::Malformed)?;
        let (target, execution) = match (wire.turn, wire.work, wire.batch) {
            (Some(_), None, Some(id)) => (Target::Batch { id }, None),
            (Some(WireTurn { instance, execution }), None, None) => (Target::Turn { instance }, execution),
            (None, Some(work), None) => (Target::Work(work.into()), None),
            _ => return Err(WakeupError::NoTarget),
        };
        if target.instance().is_empty() {
            return Err(WakeupError::EmptyInstance);
        }
        let first = wire.due.unwrap_or(0);
        let mut also: Vec<u64> = wire.also.iter().map(|after| first.saturating_add(*after)).collect();
        also.sort_unstable();
        Ok(Wakeup {
            target,
            consistency_token: wire.consistency,
            due_ms: wire.due,
            also_due_ms: also,
            tries: wire.tries,
            execution,
            overdue: wire.overdue,
            probe: wire.probe,
        })
    }
}

/// The newest part of what this process has seen of the store, to be carried by a wakeup: it has what was just written.
pub(crate) fn recent_consistency_token(store: &CosmosProvider) -> Option<String> {
    store.recent_consistency_token(TOKEN_BYTES)
}

/// The same JSON with every other character escaped. Outside of strings JSON is ASCII anyway.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() && character != '\u{7f}' {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> WorkTarget {
        WorkTarget {
            instance: "i".to_owned(),
            execution: 2,
            activity: 3,
            ..WorkTarget::default()
        }
    }

    /// A wakeup with everything in it.
    fn written() -> WorkTarget {
        WorkTarget {
            name: Some("charge".to_owned()),
            tag: Some("gpu".to_owned()),
            session: Some("cart".to_owned()),
            written: Some(WorkVersion {
                etag: Etag::new("\"00004f2a-0000-0700-0000-690f6a3c0000\""),
                schema: 1,
            }),
            ..work()
        }
    }

    #[test]
    fn a_wakeup_survives_the_journey() {
        let mut late = Wakeup::turn("order-7");
        late.set_dues(&[1_760_000_000_000, 1_760_000_000_001, 1_760_000_000_999]);
        late.consistency_token = Some("0:-1#12,1:-1#7".to_owned());
        late.tries = 3;
        late.overdue = true;
        late.probe = Some(Probe {
            queue: "work:gpu".to_owned(),
            sent_ms: 1_760_000_000_001,
        });
        for wakeup in [Wakeup::turn("a"), Wakeup::work(work()), Wakeup::work(written()), late] {
            assert_eq!(Wakeup::decode(&wakeup.encode()).unwrap(), wakeup);
        }
    }

    #[test]
    fn later_due_times_travel_as_what_they_are_after_the_first() {
        let mut wakeup = Wakeup::turn("a");
        wakeup.set_dues(&[1_760_000_000_000, 1_760_000_000_250]);
        let body = r#"{"v":1,"turn":{"instance":"a"},"due":1760000000000,"also":[250]}"#;
        assert_eq!(wakeup.encode(), body);
        assert_eq!(Wakeup::decode(body).unwrap(), wakeup);
        let odd = r#"{"v":1,"turn":{"instance":"a"},"due":5,"also":[18446744073709551615,7,3]}"#;
        let dues: Vec<u64> = Wakeup::decode(odd).unwrap().dues().collect();
        assert_eq!(dues, [5, 8, 12, u64::MAX], "whoever sent it");
    }

    #[test]
    fn any_instance_id_travels_as_ascii() {
        for id in [
            "a/b\\c?d#e\"f%",
            "Zürich ☃ 日本 \u{1f980}",
            "\u{fffe}\u{ffff}\u{0}\n\u{7f}\u{9f}",
        ] {
            let body = Wakeup::turn(id).encode();
            assert!(body.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{body}");
            assert_eq!(Wakeup::decode(&body).unwrap().target.instance(), id);
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_small_wakeups_are_small() {
        let wakeup = Wakeup::decode(r#"{"v":1,"turn":{"instance":"a","colour":1},"new":{"x":[]}}"#).unwrap();
        assert_eq!(wakeup, Wakeup::turn("a"));
        assert_eq!(wakeup.encode(), r#"{"v":1,"turn":{"instance":"a"}}"#);
    }

    #[test]
    fn the_step_of_a_batch_is_the_turn_of_no_instance_for_an_older_release() {
        let body = Wakeup::batch("2f6c").encode();
        assert_eq!(body, r#"{"v":1,"turn":{"instance":"duroxide:batches"},"batch":"2f6c"}"#);
        assert_eq!(Wakeup::decode(&body).unwrap(), Wakeup::batch("2f6c"));
        let older = body.replace(r#","batch":"2f6c""#, "");
        assert_eq!(Wakeup::decode(&older).unwrap(), Wakeup::turn("duroxide:batches"));
    }

    #[test]
    fn a_version_without_its_schema_is_no_version() {
        for part in [r#""etag":"\"1\"""#, r#""schema":1"#] {
            let body = format!(r#"{{"v":1,"work":{{"instance":"i","execution":2,"activity":3,{part}}}}}"#);
            let Target::Work(work) = Wakeup::decode(&body).unwrap().target else {
                panic!("{body}");
            };
            assert_eq!(work.written, None, "{body}");
        }
    }

    #[test]
    fn a_wakeup_of_an_activity_stays_small() {
        let typical = Wakeup::work(written()).encode();
        assert!(typical.len() <= 256, "{} bytes: {typical}", typical.len());
        let worst = "\u{1}".repeat(cosmos::MAX_PARTITION_KEY_BYTES);
        let wakeup = Wakeup::work(WorkTarget {
            instance: worst.clone(),
            session: Some(worst),
            name: Some("x".repeat(1_000_000)),
            ..written()
        });
        let body = wakeup.encode();
        assert!(body.is_ascii() && body.len() < 26_000, "{} bytes", body.len());
    }

    #[test]
    fn what_is_not_a_wakeup_is_refused_with_a_reason() {
        let noise = "x".repeat(256 * 1024);
        for (body, why) in [
            ("", "not a wakeup"),
            ("not json", "not a wakeup"),
            (noise.as_str(), "not a wakeup"),
            ("[]", "not a wakeup"),
            ("{}", "not a wakeup"),
            (r#"{"v":"1","turn":{"instance":"a"}}"#, "not a wakeup"),
            (r#"{"v":2,"turn":{"somebody":"a"}}"#, "version 2"),
            (r#"{"v":1}"#, "exactly one"),
            (r#"{"v":1,"turn":{}}"#, "instance"),
            (r#"{"v":1,"turn":{"instance":""}}"#, "without an id"),
            (r#"{"v":1,"turn":{"instance":7}}"#, "not a wakeup"),
            (r#"{"v":1,"work":{"instance":"a"}}"#, "execution"),
            (
                r#"{"v":1,"turn":{"instance":"a"},"work":{"instance":"a","execution":1,"activity":1}}"#,
                "exactly one",
            ),
        ] {
            let message = Wakeup::decode(body).unwrap_err().to_string();
            assert!(message.contains(why), "{body:.60}: {message}");
            assert!(message.len() < 300, "the noise is not repeated: {}", message.len());
        }
    }
}
