//! Writes of documents, translated where the emulator differs from the service.

use hyper::{Method, StatusCode};
use serde_json::Value;

use super::{Service, escaped};
use crate::emulator::Region;
use crate::http::{Call, IS_UPSERT, Reply};
use crate::kind::RequestKind;
use crate::strict::Checked;

impl Service {
    /// Writes to the write region, while the replicas are not being updated.
    pub(super) async fn write(&self, call: &Call, checked: &Checked) -> Reply {
        let _no_update = match &self.replicas {
            Some(replicas) => Some(replicas.enter().await),
            None => None,
        };
        let reply = self.write_now(call, checked).await;
        // The emulator awaits only before it applies a write, so a request cannot be cancelled between that and this.
        if reply.is_success() && !checked.expiring.is_empty() {
            self.note_expiring(call, checked, &reply);
        }
        reply
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
