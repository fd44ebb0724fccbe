//! Holding one request at the door, so that a test decides what happens before it is done, whatever the machine's speed.

use tokio::sync::{oneshot, watch};

use crate::count::RequestRecord;

/// Tells, of the requests that arrived before, whether the next one is meant.
pub(super) type When = Box<dyn Fn(&[RequestRecord]) -> bool + Send>;

/// A request that is, or will be, held; dropping this lets it go.
#[derive(Debug)]
pub struct Hold {
    reached: watch::Receiver<bool>,
    // Never sent on: that it is dropped is the message.
    _release: oneshot::Sender<()>,
}

/// The door's side of a [`Hold`].
pub(super) struct PlannedHold {
    when: When,
    reached: watch::Sender<bool>,
    released: oneshot::Receiver<()>,
}

impl Hold {
    pub(super) fn plan(when: When) -> (Hold, PlannedHold) {
        let (reached, watching) = watch::channel(false);
        let (release, released) = oneshot::channel();
        let hold = Hold {
            reached: watching,
            _release: release,
        };
        (
            hold,
            PlannedHold {
                when,
                reached,
                released,
            },
        )
    }

    /// Whether the request is being held.
    pub fn is_reached(&self) -> bool {
        *self.reached.borrow()
    }
}

impl PlannedHold {
    pub(super) fn is_for(&self, before: &[RequestRecord]) -> bool {
        (self.when)(before)
    }

    /// Returns when the [`Hold`] is dropped.
    pub(super) async fn wait(self) {
        self.reached.send_replace(true);
        // An error is what dropping the other side gives; there is no other outcome.
        drop(self.released.await);
    }
}
