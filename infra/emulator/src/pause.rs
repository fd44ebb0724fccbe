//! Pausing one request at a listener, so that a test decides what happens before it, independent of the machine's speed.

use tokio::sync::{oneshot, watch};

use crate::count::RequestRecord;

/// Decides from the requests that arrived before whether to pause the next one.
pub(super) type When = Box<dyn Fn(&[RequestRecord]) -> bool + Send>;

/// A request that is paused or will be. Dropping this lets it continue.
#[derive(Debug)]
pub struct Pause {
    reached: watch::Receiver<bool>,
    // Never used to send: dropping it is the signal.
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
        let pause = Pause {
            reached: watching,
            _release: release,
        };
        (
            pause,
            PlannedPause {
                when,
                reached,
                released,
            },
        )
    }

    /// Whether the request has arrived and is paused.
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
        // Always an error: the other side is dropped, never used to send.
        drop(self.released.await);
    }
}
