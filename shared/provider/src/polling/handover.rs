//! Handing a claim over to the fetch that asked for it.
//!
//! duroxide's runtime drops its fetches when it shuts down, at any await. A claim that is written at that moment would last
//! for the whole lock, although nobody runs it. So each claim is made in a task of its own, which always comes to its end,
//! with the retries and the resolution of lost answers that belong to it. (The look before a turn's claim is not part of
//! it, and ends with its fetch.) A claim that nobody takes from the task is given back. If the process ends before that,
//! the claim expires, as after a crash.

use crate::error::Failure;
use crate::types::Fetched;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tracing::Instrument as _;

/// What a claim that nobody takes leads to.
type GiveBack<T> = Box<dyn FnOnce(T) -> BoxFuture<'static, ()> + Send>;

/// A claim on its way to the fetch. Dropped before it is taken, it is given back.
struct Handover<T: Send + 'static> {
    claim: Option<(T, GiveBack<T>)>,
    runtime: Handle,
}

impl<T: Send + 'static> Handover<T> {
    fn take(mut self) -> T {
        let (claim, _) = self.claim.take().expect("it is taken once, by value");
        claim
    }
}

impl<T: Send + 'static> Drop for Handover<T> {
    fn drop(&mut self) {
        if let Some((claim, give_back)) = self.claim.take() {
            // A runtime that has ended drops it: the claim expires.
            self.runtime.spawn(give_back(claim).in_current_span());
        }
    }
}

/// Claims, whether or not the caller is still there at the end. If not, the claim goes to `give_back`.
pub(super) async fn claim<T: Send + 'static>(
    claiming: impl Future<Output = Result<Fetched<T>, Failure>> + Send + 'static,
    give_back: impl FnOnce(T) -> BoxFuture<'static, ()> + Send + 'static,
) -> Result<Fetched<T>, Failure> {
    let claiming = async move {
        let fetched = claiming.await?;
        Ok::<_, Failure>(fetched.map(|claim| Handover {
            claim: Some((claim, Box::new(give_back) as GiveBack<T>)),
            runtime: Handle::current(),
        }))
    };
    match tokio::spawn(claiming.in_current_span()).await {
        Ok(fetched) => Ok(fetched?.map(Handover::take)),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and with it the caller.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tokio::sync::Notify;

    /// A claim of 7 that begins when it may, and what was given back.
    fn claiming() -> (
        Arc<Notify>,
        Arc<AtomicU32>,
        impl Future<Output = Result<Fetched<u32>, Failure>>,
    ) {
        let (begin, returned) = (Arc::new(Notify::new()), Arc::new(AtomicU32::new(0)));
        let (begins, gave_back) = (Arc::clone(&begin), Arc::clone(&returned));
        let claiming = claim(
            async move {
                begins.notified().await;
                Ok(Fetched::Ready(7))
            },
            move |claim| async move { gave_back.store(claim, Ordering::SeqCst) }.boxed(),
        );
        (begin, returned, claiming)
    }

    async fn rest() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    #[tokio::test]
    async fn a_claim_that_is_taken_is_not_given_back() {
        let (begin, returned, claiming) = claiming();
        begin.notify_one();
        assert!(matches!(claiming.await, Ok(Fetched::Ready(7))));
        rest().await;
        assert_eq!(returned.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_claim_whose_caller_goes_before_or_after_its_end_is_given_back() {
        for is_before in [true, false] {
            let (begin, returned, claiming) = claiming();
            {
                let mut claiming = std::pin::pin!(claiming);
                assert!(claiming.as_mut().now_or_never().is_none(), "it has begun");
                if !is_before {
                    begin.notify_one();
                    rest().await;
                }
            }
            begin.notify_one();
            while returned.load(Ordering::SeqCst) != 7 {
                rest().await;
            }
        }
    }
}
