//! The API as the verbs use it: one method per route, with typed answers.

use super::Common;
use super::access::{Given, Target};
use super::answer::{Code, Failure};
use super::profiles::Profiles;
use super::transport::{Passed, Refused, Reply, Request, Transport};
use crate::ambient;
use crate::terminal::table::Look;
use bytes::Bytes;
use duroxide_lambda_api::types::{
    Accepted, Batch, BatchFailureList, BatchList, BatchRequest, CancelRequest, DeadLetter, DeadLetterList, Deleted,
    Diagnosis, Discarded, DoctorRequest, EventRequest, Execution, ExecutionList, Explanation, ForkRequest, Forked,
    History, Instance, InstanceList, KeyValueList, Me, PauseChanged, PauseRequest, ProblemType, PruneRequest, Pruned,
    Redriven, RestartRequest, Restarted, ResumeRequest, RewindRequest, Rewound, StartRequest, Started, Stats,
    StoreStats, Tree,
};
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue};
use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

/// The most items of a page that the API has.
const MOST_EVENTS: u32 = 1000;
const MOST_EXECUTIONS: u32 = 100;
const MOST_KEYS: u32 = 1000;
const MOST_OF_A_TREE: u32 = 200;

/// A connection to an API, and how to show answers.
pub(super) struct Connection {
    transport: Transport,
    pub(super) look: Look,
}

/// What a look at an instance has seen.
pub(super) enum Seen {
    Missing,
    /// As it was.
    Unchanged,
    /// The instance, with what recognises its next change.
    Instance(Box<Instance>, Option<HeaderValue>),
}

impl Connection {
    pub(super) async fn connect(common: &Common) -> Result<Connection, Failure> {
        let get = |name: &str| env::var(name).ok();
        let given = Given {
            url: common.url.clone(),
            profile: common.profile.clone(),
            token: common.token.clone(),
        };
        let target = Target::choose(&given, get, || Profiles::read(get))?;
        Ok(Connection {
            transport: Transport::connect(target).await?,
            look: Look::of_stdout(),
        })
    }

    /// A connection to the API of a local cloud, whatever the variables of this shell say.
    pub(super) async fn at(url: &str) -> Result<Connection, Failure> {
        let given = Given {
            url: Some(url.to_owned()),
            ..Given::default()
        };
        let no_profiles = || Err(Failure::error("a local cloud needs no profile"));
        let target = Target::choose(&given, |_| None, no_profiles)?;
        Ok(Connection {
            transport: Transport::connect(target).await?,
            look: Look::of_stdout(),
        })
    }

    /// Whether the API is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.transport.is_local()
    }

    pub(super) fn now_ms(&self) -> u64 {
        ambient::now_ms()
    }

    /// Who we are for the API.
    pub(super) async fn me(&self) -> Result<Me, Failure> {
        Ok(self.transport.ask(Request::get(&["me"])).await?)
    }

    /// Passes a request of a browser on.
    pub(super) async fn pass(&self, request: Passed) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
        self.transport.pass(request).await
    }

    pub(super) async fn start(&self, orchestration: &str, request: &StartRequest) -> Result<Started, Refused> {
        let request = Request::post(&["orchestrations", orchestration, "instances"], request)?;
        self.transport.ask(request.once(new_key())).await
    }

    /// Looks at an instance; with an ETag, waits so long for a change.
    pub(super) async fn look_at(
        &self,
        instance: &str,
        etag: Option<&HeaderValue>,
        wait: Duration,
    ) -> Result<Seen, Failure> {
        let request = Request::get(&["instances", instance])
            .query("raw", true)
            .query("includeInput", true);
        match self.transport.send(request.unless(etag).wait(wait)).await {
            Ok(Reply::Value(found, etag)) => Ok(Seen::Instance(Box::new(found), etag)),
            Ok(Reply::Unchanged) => Ok(Seen::Unchanged),
            Err(Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            }) => Ok(Seen::Missing),
            Err(refused) => Err(refused.into()),
        }
    }

    /// The instance, or a failure that says that it was not found.
    pub(super) async fn get(&self, instance: &str) -> Result<Instance, Failure> {
        match self.look_at(instance, None, Duration::ZERO).await? {
            Seen::Instance(found, _) => Ok(*found),
            Seen::Missing | Seen::Unchanged => Err(Failure::unknown(instance)),
        }
    }

    pub(super) async fn list(&self, filter: &[(&'static str, String)], limit: u32) -> Result<InstanceList, Failure> {
        let request = filter
            .iter()
            .fold(Request::get(&["instances"]), |request, (name, value)| {
                request.query(name, value)
            });
        Ok(self.transport.ask(request.query("limit", limit)).await?)
    }

    /// A page of events after this one.
    pub(super) async fn events(
        &self,
        instance: &str,
        execution: Option<u64>,
        after: Option<u64>,
    ) -> Result<History, Refused> {
        let request = Request::get(&["instances", instance, "history"])
            .maybe("execution", execution)
            .maybe("after", after);
        self.transport.ask(request.query("limit", MOST_EVENTS)).await
    }

    /// The whole history of an execution.
    pub(super) async fn history(&self, instance: &str, execution: Option<u64>) -> Result<History, Refused> {
        let mut whole = self.events(instance, execution, None).await?;
        while let Some(after) = whole.next_after {
            let page = self.events(instance, Some(whole.execution), Some(after)).await?;
            whole.events.extend(page.events);
            // A later page knows more of an activity.
            whole
                .attempts
                .retain(|of| !page.attempts.iter().any(|newer| newer.activity == of.activity));
            whole.attempts.extend(page.attempts);
            whole.next_after = page.next_after;
        }
        Ok(whole)
    }

    pub(super) async fn executions(&self, instance: &str) -> Result<Vec<Execution>, Failure> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let request = Request::get(&["instances", instance, "executions"]).maybe("after", after);
            let page: ExecutionList = self.transport.ask(request.query("limit", MOST_EXECUTIONS)).await?;
            all.extend(page.executions);
            match page.next_after {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn key_values(&self, instance: &str) -> Result<BTreeMap<String, String>, Failure> {
        let mut all = BTreeMap::new();
        let mut after = None;
        loop {
            let request = Request::get(&["instances", instance, "kv"]).maybe("after", after);
            let page: KeyValueList = self.transport.ask(request.query("limit", MOST_KEYS)).await?;
            all.extend(page.values.into_iter().map(|value| (value.key, value.value)));
            match page.next_after {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// The keys that the current execution of an instance found when it began, and that execution.
    pub(super) async fn keys_at_start(&self, instance: &str) -> Result<KeyValueList, Refused> {
        let mut all = KeyValueList::default();
        loop {
            let request = Request::get(&["instances", instance, "kv"]).maybe("after", all.next_after.take());
            let request = request.query("atStart", true).query("limit", MOST_KEYS);
            let page: KeyValueList = self.transport.ask(request).await?;
            let is_first = all.execution.is_none();
            if !is_first && all.execution != page.execution {
                // Another execution has begun between two pages: again from the first.
                all = KeyValueList::default();
                continue;
            }
            all.execution = page.execution;
            all.values.extend(page.values);
            all.next_after = page.next_after;
            if all.next_after.is_none() {
                return Ok(all);
            }
        }
    }

    /// An instance and its descendants.
    pub(super) async fn tree(&self, instance: &str) -> Result<Vec<Instance>, Failure> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let request = Request::get(&["instances", instance, "tree"]).maybe("after", after);
            let request = request.query("limit", MOST_OF_A_TREE);
            let page: Tree = self.of(instance, request).await?;
            all.extend(page.instances);
            match page.next_after {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn stats(&self, instance: &str) -> Result<Stats, Failure> {
        self.of(instance, Request::get(&["instances", instance, "stats"])).await
    }

    pub(super) async fn explain(&self, instance: &str) -> Result<Explanation, Failure> {
        self.of(instance, Request::get(&["instances", instance, "explain"]))
            .await
    }

    pub(super) async fn raise(&self, instance: &str, event: &str, data: String) -> Result<Accepted, Refused> {
        self.send_to(&["instances", instance, "events", event], data).await
    }

    pub(super) async fn enqueue(&self, instance: &str, queue: &str, data: String) -> Result<Accepted, Refused> {
        self.send_to(&["instances", instance, "queues", queue], data).await
    }

    async fn send_to(&self, segments: &[&str], data: String) -> Result<Accepted, Refused> {
        let body = EventRequest {
            data: None,
            data_text: Some(data),
        };
        self.transport
            .ask(Request::post(segments, &body)?.once(new_key()))
            .await
    }

    pub(super) async fn cancel(&self, instance: &str, reason: &str) -> Result<Accepted, Refused> {
        let body = CancelRequest {
            reason: Some(reason.to_owned()),
        };
        let request = Request::verb(&["instances", instance], "cancel", &body)?;
        self.transport.ask(request).await
    }

    pub(super) async fn pause(
        &self,
        instance: &str,
        children: bool,
        reason: Option<String>,
    ) -> Result<PauseChanged, Failure> {
        let body = PauseRequest { children, reason };
        let request = Request::verb(&["instances", instance], "pause", &body)?;
        self.of(instance, request.repeatable()).await
    }

    pub(super) async fn resume(&self, instance: &str, children: bool) -> Result<PauseChanged, Failure> {
        let body = ResumeRequest { children };
        let request = Request::verb(&["instances", instance], "resume", &body)?;
        self.of(instance, request.repeatable()).await
    }

    pub(super) async fn restart(&self, instance: &str, request: &RestartRequest) -> Result<Restarted, Failure> {
        let request = Request::verb(&["instances", instance], "restart", request)?;
        self.of(instance, request.once(new_key())).await
    }

    pub(super) async fn start_batch(&self, request: &BatchRequest) -> Result<Batch, Failure> {
        let request = Request::post(&["batches"], request)?;
        Ok(self.transport.ask(request.once(new_key())).await?)
    }

    pub(super) async fn batch(&self, id: &str) -> Result<Batch, Failure> {
        self.of_batch(Request::get(&["batches", id])).await
    }

    pub(super) async fn cancel_batch(&self, id: &str) -> Result<Batch, Failure> {
        let body = serde_json::Map::new();
        let request = Request::verb(&["batches", id], "cancel", &body)?;
        self.of_batch(request.repeatable()).await
    }

    pub(super) async fn batches(&self, limit: u32, cursor: Option<&str>) -> Result<BatchList, Failure> {
        let request = Request::get(&["batches"]).query("limit", limit).maybe("cursor", cursor);
        Ok(self.transport.ask(request).await?)
    }

    pub(super) async fn batch_failures(&self, id: &str, cursor: Option<&str>) -> Result<BatchFailureList, Failure> {
        let request = Request::get(&["batches", id, "failures"]).maybe("cursor", cursor);
        self.of_batch(request).await
    }

    /// A request about a batch, which may not be there.
    async fn of_batch<T: serde::de::DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        self.transport.ask(request).await.map_err(|refused| match refused {
            Refused::Problem {
                kind: Some(ProblemType::NotFound),
                detail,
            } => Failure::new(Code::NotFound, detail),
            other => other.into(),
        })
    }

    pub(super) async fn rewind(&self, instance: &str, body: &RewindRequest) -> Result<Rewound, Failure> {
        // Not repeated by itself: a second attempt would find that it has not failed any more.
        let request = Request::verb(&["instances", instance], "rewind", body)?;
        self.of(instance, request).await
    }

    pub(super) async fn fork(&self, instance: &str, body: &ForkRequest) -> Result<Forked, Failure> {
        // Not repeated by itself: a second attempt would find that its id is taken.
        let request = Request::verb(&["instances", instance], "fork", body)?;
        self.of(instance, request).await
    }

    /// The events that a rewind has undone.
    pub(super) async fn undone(&self, instance: &str, number: u64) -> Result<History, Refused> {
        let mut whole: Option<History> = None;
        loop {
            let after = whole.as_ref().and_then(|whole| whole.next_after);
            let request = Request::get(&["instances", instance, "history"]).query("undone", number);
            let page: History = self.transport.ask(request.maybe("after", after)).await?;
            let next = page.next_after;
            match &mut whole {
                Some(whole) => {
                    whole.events.extend(page.events);
                    whole.next_after = next;
                }
                None => whole = Some(page),
            }
            if next.is_none() {
                return Ok(whole.unwrap_or_default());
            }
        }
    }

    pub(super) async fn prune(&self, instance: &str, keep: u32) -> Result<Pruned, Failure> {
        let body = PruneRequest { keep: Some(keep) };
        self.of(instance, Request::verb(&["instances", instance], "prune", &body)?)
            .await
    }

    pub(super) async fn delete(&self, instance: &str, force: bool) -> Result<Deleted, Failure> {
        let request = Request::delete(&["instances", instance]).maybe("force", force.then_some(true));
        self.of(instance, request).await
    }

    /// Deletes an instance, whatever its state. Tried again while the API is overloaded or unreachable for a moment. Returns whether
    /// it was there.
    pub(super) async fn remove(&self, instance: &str) -> Result<bool, Failure> {
        let request = Request::delete(&["instances", instance]).query("force", true);
        match self.transport.ask::<Deleted>(request.insistent()).await {
            Ok(_) => Ok(true),
            Err(Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            }) => Ok(false),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Lets the API examine its deployment.
    pub(super) async fn doctor(&self, samples: u32) -> Result<Diagnosis, Refused> {
        let body = DoctorRequest { samples: Some(samples) };
        self.transport
            .ask(Request::post(&["doctor"], &body)?.repeatable())
            .await
    }

    pub(super) async fn store_stats(&self) -> Result<StoreStats, Failure> {
        Ok(self.transport.ask(Request::get(&["stats"])).await?)
    }

    pub(super) async fn dead_letters(&self, limit: u32, cursor: Option<&str>) -> Result<DeadLetterList, Failure> {
        let request = Request::get(&["dead-letters"])
            .query("limit", limit)
            .maybe("cursor", cursor);
        Ok(self.transport.ask(request).await?)
    }

    pub(super) async fn dead_letter(&self, instance: &str, id: &str) -> Result<DeadLetter, Refused> {
        self.transport.ask(Request::get(&["dead-letters", instance, id])).await
    }

    pub(super) async fn redrive(&self, instance: &str, id: &str) -> Result<Redriven, Refused> {
        let body = serde_json::Map::new();
        let request = Request::verb(&["dead-letters", instance, id], "redrive", &body)?;
        self.transport.ask(request).await
    }

    pub(super) async fn discard(&self, instance: &str, id: &str) -> Result<Discarded, Refused> {
        self.transport
            .ask(Request::delete(&["dead-letters", instance, id]))
            .await
    }

    /// A request about an instance, which may not be there.
    async fn of<T: serde::de::DeserializeOwned>(&self, instance: &str, request: Request) -> Result<T, Failure> {
        self.transport.ask(request).await.map_err(|refused| match refused {
            Refused::Problem {
                kind: Some(ProblemType::NotFound),
                ..
            } => Failure::unknown(instance),
            other => other.into(),
        })
    }
}

/// A key by which the API recognises a request that it gets twice.
fn new_key() -> String {
    ambient::unique()
}
