//! What the store knows of one instance, as it was read: documents without a decision.

use crate::error::Failure;
use crate::model::sql::{DEAD_LETTER, HISTORY, INSTANCE, INTENT, MESSAGE, WORK_ITEM};
use crate::model::{
    DeadLetterDoc, Foreign, HistoryDoc, InstanceDoc, IntentDoc, Kind, MessageDoc, SessionDoc, WorkDoc, chain_of,
};
use crate::store::{Fence, Store, Stored};
use cosmos::{PageOptions, PartitionKey, Query};
use duroxide::Event;
use duroxide::providers::WorkItem;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Documents of one page, and the most pages: of the history, and of what waits.
const PAGE: u32 = 200;
const MOST_PAGES: usize = 5;
/// How many messages are read apart, when there is more than the pages hold.
const FIRST_MESSAGES: u32 = 50;
/// How many affinity sessions are read.
const MOST_SESSIONS: usize = 3;

/// A message, as far as this build can read it.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub doc: MessageDoc,
    /// `None`: a newer duroxide queued it.
    pub item: Option<WorkItem>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub instance: String,
    pub now_ms: u64,
    pub fence: Option<Fence>,
    /// The instance document, if a newer release wrote it.
    pub foreign: Option<Foreign>,
    /// Other documents that a newer release wrote.
    pub unreadable: Vec<Foreign>,
    pub messages: Vec<Queued>,
    pub works: Vec<WorkDoc>,
    pub intents: Vec<IntentDoc>,
    pub letters: Vec<DeadLetterDoc>,
    pub sessions: Vec<SessionDoc>,
    /// There is more than was read.
    pub more: bool,
    /// The events of the current execution, or the newest of them.
    pub events: Vec<Event>,
    /// Why some are missing.
    pub partial: Option<String>,
}

impl Facts {
    /// The document of the instance, if there is one.
    pub(super) fn doc(&self) -> Option<&InstanceDoc> {
        let doc = self.fence.as_ref().map(|fence| &fence.doc);
        doc.filter(|doc| doc.is_taken())
    }
}

/// Reads an instance: two requests, if neither its history nor what waits takes more than a page, and one for each affinity
/// session of a queued activity.
pub(super) async fn read(store: &Store, pk: &PartitionKey) -> Result<Facts, Failure> {
    let mut facts = Facts {
        instance: pk.as_str().to_owned(),
        ..Facts::default()
    };
    let ((fence, past), waiting) = futures::try_join!(past(store, pk), waiting(store, pk))?;
    facts.now_ms = store.now();
    match fence {
        Some(Ok(fence)) => facts.fence = Some(fence),
        Some(Err(foreign)) => facts.foreign = Some(foreign),
        None => {}
    }
    facts.take(waiting);
    facts.assemble(past);
    facts.sessions = sessions(store, &facts).await?;
    Ok(facts)
}

/// The documents of a query, at most so many pages of them.
async fn pages(store: &Store, pk: &PartitionKey, query: &Query) -> Result<(Vec<Box<RawValue>>, bool), Failure> {
    let mut page = PageOptions {
        max_items: Some(PAGE),
        continuation: None,
    };
    let mut all = Vec::new();
    for _ in 0..MOST_PAGES {
        let answer = store.container.query_page::<Box<RawValue>>(pk, query, &page).await?;
        all.extend(answer.items);
        page.continuation = answer.continuation;
        if page.continuation.is_none() {
            break;
        }
    }
    Ok((all, page.continuation.is_some()))
}

/// What was read of the instance document and the history.
#[derive(Debug, Default)]
struct Past {
    docs: Vec<HistoryDoc>,
    foreign: Vec<Foreign>,
}

/// The instance document, and the newest history documents: in descending order of `sortKey` the instance comes first, and reading
/// stops where an earlier execution begins.
async fn past(store: &Store, pk: &PartitionKey) -> Result<(Option<Result<Fence, Foreign>>, Past), Failure> {
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type IN ({INSTANCE}, {HISTORY}) ORDER BY c.sortKey DESC"
    ));
    let mut page = PageOptions {
        max_items: Some(PAGE),
        continuation: None,
    };
    let (mut fence, mut past) = (None, Past::default());
    for _ in 0..MOST_PAGES {
        let answer = store.container.query_page::<Box<RawValue>>(pk, &query, &page).await?;
        let mut is_earlier = false;
        for raw in &answer.items {
            match Stored::decode(raw) {
                Ok(Stored::Instance(found)) => fence = Some(Ok(*found)),
                Ok(Stored::History(doc)) => {
                    let current = match &fence {
                        Some(Ok(fence)) => fence.doc.current.execution,
                        _ => continue,
                    };
                    is_earlier |= doc.execution < current;
                    past.docs.extend(Some(doc).filter(|doc| doc.execution == current));
                }
                Ok(_) => {}
                Err(error) if Kind::of(raw) == Kind::Instance => fence = Some(Err(Foreign::of(raw, &error))),
                Err(error) => past.foreign.push(Foreign::of(raw, &error)),
            }
        }
        page.continuation = answer.continuation;
        if is_earlier || page.continuation.is_none() {
            break;
        }
    }
    Ok((fence, past))
}

/// What waits in the partition, and what was given up. Activities and intents come first, then messages, then dead letters.
async fn waiting(store: &Store, pk: &PartitionKey) -> Result<(Vec<Box<RawValue>>, bool), Failure> {
    let query = Query::new(format!(
        "SELECT * FROM c WHERE c.type IN ({MESSAGE}, {WORK_ITEM}, {INTENT}, {DEAD_LETTER}) ORDER BY c.sortKey"
    ));
    let (mut found, more) = pages(store, pk, &query).await?;
    let has_messages = found.iter().any(|raw| Kind::of(raw) == Kind::Message);
    if more && !has_messages {
        let first = Query::new(format!(
            "SELECT * FROM c WHERE c.type = {MESSAGE} ORDER BY c.sortKey OFFSET 0 LIMIT {FIRST_MESSAGES}"
        ));
        found.extend(store.container.query::<Box<RawValue>>(pk, &first).await?);
    }
    Ok((found, more))
}

/// The affinity sessions of activities that are due and not claimed.
async fn sessions(store: &Store, facts: &Facts) -> Result<Vec<SessionDoc>, Failure> {
    let is_due = |work: &&WorkDoc| work.due_at <= facts.now_ms && !work.is_claimed_at(facts.now_ms);
    let mut ids: Vec<&str> = facts
        .works
        .iter()
        .filter(is_due)
        .filter_map(|work| work.session.as_deref())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let mut sessions = Vec::new();
    for id in ids.into_iter().take(MOST_SESSIONS) {
        // A commit refuses a session that cannot be a partition key, and a newer session document shows nothing here.
        let Ok(pk) = PartitionKey::new(id) else { continue };
        match store.read::<SessionDoc>(&pk, SessionDoc::ID).await {
            Ok(found) => sessions.extend(found.map(|found| found.doc)),
            Err(Failure::Foreign { .. }) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(sessions)
}

impl Facts {
    fn take(&mut self, (documents, more): (Vec<Box<RawValue>>, bool)) {
        self.more = more;
        for raw in documents {
            match Kind::of(&raw) {
                Kind::Message => {
                    let doc = self.decoded::<MessageDoc>(&raw);
                    self.messages.extend(doc.map(|doc| Queued {
                        item: serde_json::from_str(doc.item.get()).ok(),
                        doc,
                    }));
                }
                Kind::Work => {
                    let doc = self.decoded(&raw);
                    self.works.extend(doc);
                }
                Kind::Intent => {
                    let doc = self.decoded(&raw);
                    self.intents.extend(doc);
                }
                Kind::DeadLetter => {
                    let doc = self.decoded(&raw);
                    self.letters.extend(doc);
                }
                _ => {}
            }
        }
    }

    fn decoded<T: DeserializeOwned>(&mut self, raw: &RawValue) -> Option<T> {
        match serde_json::from_str(raw.get()) {
            Ok(doc) => Some(doc),
            Err(error) => {
                self.unreadable.push(Foreign::of(raw, &error));
                None
            }
        }
    }

    /// The events that the chain from the head backwards has, as far as it was read and can be decoded.
    fn assemble(&mut self, past: Past) {
        let Some(fence) = &self.fence else { return };
        let current = &fence.doc.current;
        let mut undecodable = 0_u64;
        let chain = chain_of(&current.head, past.docs);
        for raw in chain.into_iter().flat_map(|doc| doc.events) {
            match serde_json::from_str(raw.get()) {
                Ok(event) => self.events.push(event),
                Err(_) => undecodable += 1,
            }
        }
        let (found, all) = (self.events.len() as u64, current.events);
        self.partial = match (undecodable, past.foreign.first()) {
            (0, None) if found == all => None,
            (0, None) => Some(format!("the newest {found} of {all} events were examined")),
            (0, Some(foreign)) if found != all => Some(foreign.reason.clone()),
            (0, Some(_)) => None,
            (count, _) => Some(format!("{count} of {all} events cannot be decoded by this build")),
        };
    }
}
