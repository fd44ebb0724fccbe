//! A function without processes of its own: somebody starts one, in a debugger for example, which attaches to the Runtime API at an
//! address that does not change.
//!
//! Invocations wait until a process asks for them, one at a time. They have no timeout, because a person may look at a breakpoint for long: the
//! deadline is hours away, and nothing is killed. Invariant: a process that asks for the next invocation ends the one before. A
//! process that was started again after a crash therefore fails the invocation of the crash, and its event comes again as on Lambda.

use super::environment::of_lambda;
use super::error::InvokeError;
use super::runtime_api::{Answer, Invocation, Phase, RuntimeApi};
use crate::net;
use bytes::Bytes;
use cosmos_emulator::http_server::{BoundPort, HttpServer};
use duroxide_cosmos::{Ids, RandomIds};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// The deadline of an invocation: longer than anybody looks at a breakpoint.
const TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// See the module.
#[derive(Debug)]
pub(crate) struct Attached {
    function: String,
    work: mpsc::Sender<Invocation>,
    server: HttpServer,
}

impl Attached {
    /// Serves the Runtime API of a function on this port.
    pub(crate) fn serve(function: &str, port: BoundPort) -> Attached {
        let (work, queue) = mpsc::channel(1);
        let (phase, _) = watch::channel(Phase::Starting);
        let api = RuntimeApi::new(function, TIME, queue, phase);
        Attached {
            function: function.to_owned(),
            work,
            server: net::serve(port, Arc::new(api)),
        }
    }

    /// The variables of a process that attaches, besides those of the function.
    pub(crate) fn variables(&self) -> BTreeMap<String, String> {
        let of_lambda = of_lambda(&self.function, 0, &self.server.address().to_string());
        of_lambda
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Passes an invocation to the process that asks next, and waits for the answer.
    pub(super) async fn invoke(&self, payload: Bytes) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = RandomIds.unique();
        if self.work.send(Invocation { id, payload, answer }).await.is_err() {
            return Err(InvokeError::closed());
        }
        answered.await.unwrap_or_else(|_| {
            Err(InvokeError::failed(
                "Runtime.NoAnswer",
                "the attached process ended or was started again before it answered",
            ))
        })
    }
}
