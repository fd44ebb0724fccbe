//! Compensation: what was done is undone, last first.
//!
//! A saga is a stack of compensating activities. A step that succeeded, or of which nobody knows whether it did, puts its
//! compensation on the stack; a step that was refused does not. Invariant: [`Saga::undo`] tries every compensation, however
//! many of them fail, and never forgets one that did: it comes back as a sentence for a person. Neighbours: `fulfil` fills
//! and undoes it.
//!
//! It is ordinary code of the orchestration, so it runs only as long as that does. On the functions an activity that was given
//! up (it killed its process, or took too long, each time) is an error like any other, and is compensated. An orchestration ends
//! without its compensations when a client cancels the instance. Code that was changed under a running instance blocks it, and
//! undoes nothing.

use crate::activities::{Call, RECALL_PARCEL, REFUND_CARD, RELEASE_STOCK};
use crate::order::Order;
use crate::parcel;
use crate::retries;
use crate::shop::{Key, Recall, Refund, Release};
use duroxide::{OrchestrationContext, RetryPolicy};
use serde::Serialize;
use std::time::Duration;

/// The compensations due, should the order fail now.
pub struct Saga {
    compensations: Vec<Compensation>,
    retries: RetryPolicy,
}

impl Saga {
    /// Nothing to undo yet.
    pub fn new(first_pause: Duration) -> Saga {
        Saga {
            compensations: Vec::new(),
            retries: retries::of_a_compensation(first_pause),
        }
    }

    /// From here on, a failure runs this compensation first.
    pub fn push(&mut self, compensation: Compensation) {
        self.compensations.push(compensation);
    }

    /// Undoes everything, last first. `Ok` are the activities that did; `Err` is what is left to do by hand.
    pub async fn undo(self, ctx: &OrchestrationContext) -> Result<Vec<String>, Vec<String>> {
        let (mut undone, mut by_hand) = (Vec::new(), Vec::new());
        for step in self.compensations.into_iter().rev() {
            match ctx
                .schedule_activity_with_retry(step.activity, step.input, self.retries.clone())
                .await
            {
                Ok(_) => undone.push(step.activity.to_owned()),
                Err(error) => by_hand.push(format!("{} ({}: {error})", step.by_hand, step.activity)),
            }
        }
        if by_hand.is_empty() { Ok(undone) } else { Err(by_hand) }
    }
}

/// An activity that undoes a step, and what a person has to do should it never succeed.
pub struct Compensation {
    activity: &'static str,
    input: String,
    by_hand: String,
}

impl Compensation {
    /// Gives back what the order's instance reserved under this key.
    pub fn release(instance: &str, reservation: Key) -> Compensation {
        let by_hand = format!("release the stock reserved under {reservation}");
        let call = Call::new(Key::of(instance, "release"), Release { reservation });
        Compensation::new(RELEASE_STOCK, call, by_hand)
    }

    /// Gives back what the order's instance charged under this key.
    pub fn refund(instance: &str, charge: Key, order: &Order) -> Compensation {
        let (customer, cents) = (order.customer.clone(), order.total_cents);
        let by_hand = format!("refund {cents} cents to {customer}, charged under {charge}");
        let ask = Refund {
            charge,
            customer,
            cents,
        };
        Compensation::new(REFUND_CARD, Call::new(Key::of(instance, "refund"), ask), by_hand)
    }

    /// Calls back a parcel of the order's instance.
    pub fn recall(instance: &str, number: usize) -> Compensation {
        let parcel = parcel::instance_of(instance, number);
        let pick_up = parcel::pick_up_key(&parcel);
        let by_hand = format!("recall parcel {number}, picked up under {pick_up}");
        let call = Call::new(Key::of(&parcel, "recall"), Recall { pick_up });
        Compensation::new(RECALL_PARCEL, call, by_hand)
    }

    fn new(activity: &'static str, call: Call<impl Serialize>, by_hand: String) -> Compensation {
        let input = serde_json::to_string(&call).expect("a call is plain data, with field names for keys");
        Compensation {
            activity,
            input,
            by_hand,
        }
    }
}
