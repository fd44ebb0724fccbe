//! The activities: where an orchestration meets the world. I/O, clocks and chance belong here and only here.
//!
//! Each is one call of the [`Shop`], with the key that the orchestration chose. Invariant: a refusal is a result; an error
//! means "no answer, ask again", and is what retries are for. Neighbours: `fulfil`, `parcel` and `saga` schedule them by
//! name; `shop` does the work.

use crate::shop::{Charge, Key, NoAnswer, PickUp, Recall, Refund, Release, Reserve, Shop};
use duroxide::ActivityContext;
use duroxide::runtime::registry::{ActivityRegistry, ActivityRegistryBuilder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

/// Reserves the order's lines.
pub const RESERVE_STOCK: &str = "reserve-stock";
/// Charges the order's total.
pub const CHARGE_CARD: &str = "charge-card";
/// Hands a parcel to the carrier.
pub const PICK_UP_PARCEL: &str = "pick-up-parcel";
/// Undoes [`RESERVE_STOCK`].
pub const RELEASE_STOCK: &str = "release-stock";
/// Undoes [`CHARGE_CARD`].
pub const REFUND_CARD: &str = "refund-card";
/// Undoes [`PICK_UP_PARCEL`].
pub const RECALL_PARCEL: &str = "recall-parcel";

/// The input of every activity: what to do, and the key under which it is done once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call<Ask> {
    pub key: Key,
    pub ask: Ask,
}

impl<Ask> Call<Ask> {
    pub fn new(key: Key, ask: Ask) -> Call<Ask> {
        Call { key, ask }
    }
}

pub fn registry<S: Shop>(shop: S) -> ActivityRegistry {
    let counter = Counter {
        shop: Arc::new(shop),
        builder: ActivityRegistry::builder(),
    };
    counter
        .offer(RESERVE_STOCK, |shop, Call::<Reserve> { key, ask }| async move {
            shop.reserve(&key, &ask).await
        })
        .offer(CHARGE_CARD, |shop, Call::<Charge> { key, ask }| async move {
            shop.charge(&key, &ask).await
        })
        .offer(PICK_UP_PARCEL, |shop, Call::<PickUp> { key, ask }| async move {
            shop.pick_up(&key, &ask).await
        })
        .offer(RELEASE_STOCK, |shop, Call::<Release> { key, ask }| async move {
            shop.release(&key, &ask).await
        })
        .offer(REFUND_CARD, |shop, Call::<Refund> { key, ask }| async move {
            shop.refund(&key, &ask).await
        })
        .offer(RECALL_PARCEL, |shop, Call::<Recall> { key, ask }| async move {
            shop.recall(&key, &ask).await
        })
        .builder
        .build()
}

/// What the shop offers so far, as activities.
struct Counter<S> {
    shop: Arc<S>,
    builder: ActivityRegistryBuilder,
}

impl<S: Shop> Counter<S> {
    /// Registers a call of the shop: traced, with its error as duroxide wants it.
    fn offer<Ask, Reply, Fut>(self, name: &str, call: impl Fn(Arc<S>, Call<Ask>) -> Fut + Send + Sync + 'static) -> Self
    where
        Ask: DeserializeOwned + Send + 'static,
        Reply: Debug + Serialize + Send + 'static,
        Fut: Future<Output = Result<Reply, NoAnswer>> + Send + 'static,
    {
        let Counter { shop, builder } = self;
        let served = Arc::clone(&shop);
        let activity = move |ctx: ActivityContext, asked: Call<Ask>| {
            // The key, and not what is asked: names and addresses do not belong in logs.
            let key = asked.key.clone();
            let reply = call(Arc::clone(&served), asked);
            async move {
                let reply = reply.await;
                match &reply {
                    Ok(reply) => ctx.trace_info(format!("{key}: {reply:?}")),
                    Err(error) => ctx.trace_warn(format!("{key}: {error}")),
                }
                reply.map_err(|error| error.to_string())
            }
        };
        Counter {
            shop,
            builder: builder.register_typed(name, activity),
        }
    }
}
