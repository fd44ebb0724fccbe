//! One step of a batch: the store does it, this sends the wakeups and says what becomes of the record.
//!
//! | the step | outcome | the record |
//! |---|---|---|
//! | made progress | committed | served; the next step has its wakeup, for its time |
//! | found another step ahead, or no batch | nothing | served: whoever is ahead has sent the wakeup |
//! | could not reach the store | abandoned | served; the step is tried again after [`AGAIN`] |
//! | cannot be done by this release | nothing | served: maintenance of the newer release wakes it |
//!
//! The wakeup of the next step is sent with those of the instances, in the same calls. If it is lost, maintenance finds the batch.

use crate::budget::Budget;
use crate::due::Schedule;
use crate::environment::Environment;
use crate::gate::{Outcome, Step};
use crate::metrics::Metric;
use crate::wakeup::{Wakeup, recent_consistency_token};
use duroxide_cosmos::{StepContext, Target};
use std::time::Duration;

/// How long after a step that could not reach the store the next one comes.
const AGAIN: Duration = Duration::from_secs(5);
/// The least time that a step needs.
const LEAST: Duration = Duration::from_secs(2);
/// Reserved at the end for the last write and the wakeups.
const RESERVE: Duration = Duration::from_millis(1_500);

impl Environment {
    pub(super) async fn batch_step(&self, target: &Target, wakeups: &[Wakeup], budget: Budget) -> Step {
        let Target::Batch { id } = target else {
            return Step::failed("this is not the wakeup of a batch");
        };
        if !budget.fits(LEAST) {
            return Step::not_begun(Outcome::Deferred);
        }
        let now_ms = self.clock.now_ms();
        let due_ms = wakeups.iter().flat_map(Wakeup::dues).min();
        let throttled = self.metrics.counted(Metric::CosmosThrottled);
        let context = StepContext {
            deadline: budget.end_less(RESERVE),
            late_ms: due_ms.map_or(0, |due_ms| now_ms.saturating_sub(due_ms)),
            is_throttled: &|| self.metrics.counted(Metric::CosmosThrottled) > throttled,
        };
        let step = match self.store.batch_step(id, context).await {
            Ok(step) => step,
            Err(error) if error.is_retryable() => {
                tracing::warn!(batch = id, %error, "a step of a batch could not be done; it is tried again");
                return Step::not_begun(Outcome::Abandoned { delay: AGAIN });
            }
            Err(error) => {
                tracing::error!(batch = id, %error, "a step of a batch cannot be done; maintenance wakes it again");
                return Step::not_begun(Outcome::Nothing);
            }
        };
        if !step.advanced {
            return Step::not_begun(Outcome::Nothing);
        }
        self.metrics.count(Metric::BatchInstances, step.handled);
        tracing::info!(batch = id, handled = step.handled, "a step of a batch was done");
        let schedule = Schedule {
            written_ms: self.clock.now_ms(),
            // Its next step is never far.
            reach: Duration::MAX,
            consistency_token: recent_consistency_token(&self.store),
        };
        Step {
            wakeups: schedule.wakeups(step.due),
            ..Step::not_begun(Outcome::Committed)
        }
    }
}
