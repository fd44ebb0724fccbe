//! Writes of documents, translated where the emulator differs from the service.

use std::collections::HashMap;

use hyper::{Method, StatusCode};
use serde_json::Value;

use super::{Service, escaped};
use crate::charge;
use crate::emulator::Region;
use crate::http::{Call, IS_UPSERT, PARTITION_KEY, Reply};
use crate::kind::RequestKind;
use crate::strict::{Checked, Footprint, TouchKind};

impl Service {
    /// Writes to the write region, while the replicas are not being updated.
    pub(super) async fn write(&self, call: &Call, checked: &Checked) -> Reply {
        let _no_update = match &self.replicas {
            Some(replicas) => Some(replicas.enter().await),
            None => None,
        };
        let before = self.footprints_before(call, checked).await;
        let mut reply = self.write_now(call, checked).await;
        self.charge_write(call, checked, &before, &mut reply);
        // The emulator awaits only before it applies a write, so a request cannot be cancelled between that and this.
        if reply.is_success() && !checked.expiring.is_empty() {
            self.note_expiring(call, checked, &reply);
        }
        reply
    }

    /// The documents that a write replaces or deletes, and those that its batch reads, by id.
    async fn footprints_before(&self, call: &Call, checked: &Checked) -> HashMap<String, Footprint> {
        let mut before = HashMap::new();
        for touched in &checked.touched {
            if touched.kind == TouchKind::Create || before.contains_key(&touched.id) {
                continue;
            }
            let found = match self.footprints.get(call, &touched.id) {
                Some(known) => Some(known),
                None => self.stored_footprint(call, &touched.id).await,
            };
            before.extend(found.map(|found| (touched.id.clone(), found)));
        }
        before
    }

    async fn stored_footprint(&self, call: &Call, id: &str) -> Option<Footprint> {
        let key = call.headers.get(PARTITION_KEY)?;
        let documents = call.path.splitn(7, '/').take(6).collect::<Vec<_>>().join("/");
        let path = format!("{documents}/{}", escaped(id));
        let mut read = Call::new(Method::GET, &path, Default::default(), Default::default());
        read.set_header(PARTITION_KEY, key.clone());
        let reply = self.emulator.execute(Region::Write, &read).await;
        let container = self.catalog.container(&self.emulator, call).await?;
        let document: Value = serde_json::from_slice(&reply.body)
            .ok()
            .filter(|_| reply.is_success())?;
        Some(Footprint::of(&document, &container.index_tree))
    }

    fn charge_write(&self, call: &Call, checked: &Checked, before: &HashMap<String, Footprint>, reply: &mut Reply) {
        match checked.touched.as_slice() {
            touched if call.kind == RequestKind::Batch => charge::charge_batch(reply, touched, before),
            [touched] => charge::charge_write(reply, touched, before.get(&touched.id)),
            _ => charge::charge_failed_write(reply),
        }
        if reply.is_success() {
            let written = checked.touched.iter().filter(|touched| touched.kind != TouchKind::Read);
            written.for_each(|touched| self.footprints.set(call, &touched.id, touched.written.as_ref()));
        }
    }

    async fn write_now(&self, call: &Call, checked: &Checked) -> Reply {
        if let Some(plan) = &checked.batch {
            let reply = match &plan.body {
                Some(body) => {
                    let rewritten = Call {
                        body: body.clone(),
                        ..call.clone()
                    };
                    self.emulator.execute(Region::Write, &rewritten).await
                }
                None => self.emulator.execute(Region::Write, call).await,
            };
            return plan.restore(reply);
        }
        let Some(etag) = call.header("if-match") else {
            return self.emulator.execute(Region::Write, call).await;
        };
        let mut plain = call.clone();
        if etag == "*" {
            plain.headers.remove("if-match");
        }
        if call.kind != RequestKind::Upsert {
            return self.emulator.execute(Region::Write, &plain).await;
        }
        // A conditional upsert is a replace with another status for a missing document.
        let id = serde_json::from_slice::<Value>(&call.body)
            .ok()
            .and_then(|document| document["id"].as_str().map(escaped))
            .unwrap_or_default();
        plain.headers.remove(IS_UPSERT);
        let replace = Call::new(
            Method::PUT,
            &format!("{}/{id}", call.path),
            plain.headers,
            call.body.clone(),
        );
        let reply = self.emulator.execute(Region::Write, &replace).await;
        if reply.status == StatusCode::NOT_FOUND {
            let message = "One of the specified pre-condition is not met.";
            return Reply::error(StatusCode::PRECONDITION_FAILED, None, message);
        }
        reply
    }
}
