//! Holding one request at the listener, so that a test decides what happens before it is done, whatever the machine's speed.

use tokio::sync::{oneshot, watch};

use crate::count::RequestRecord;

/// Tells, of the requests that arrived before, whether the next one is meant.
pub(super) type When = Box<dyn Fn(&[RequestRecord]) -> bool + Send>;

/// A request that is, or will be, held; dropping this lets it go.
#[derive(Debug)]
pub struct Pause {
    reached: watch::Receiver<bool>,
    // Never sent on: that it is dropped is the message.
    _release: oneshot::Sender<()>,
}

/// The listener's side of a [`Pause`].
pub(super) struct PlannedPause {
    when: When,
    reached: watch::Sender<bool>,
    released: oneshot::Receiver<()>,
}

impl Pause {
    pub(super) fn plan(when: When) -> (Pause, PlannedPause) {
        let (reached, watching) = watch::channel(false);
        let (release, released) = oneshot::channel();
        let hold = Pause {
            reached: watching,
            _release: release,
        };
        (
            hold,
            PlannedPause {
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

impl PlannedPause {
    pub(super) fn is_for(&self, before: &[RequestRecord]) -> bool {
        (self.when)(before)
    }

    /// Returns when the [`Pause`] is dropped.
    pub(super) async fn wait(self) {
        self.reached.send_replace(true);
        // An error is what dropping the other side gives; there is no other outcome.
        drop(self.released.await);
    }
}
