//! Idempotency keys: how a request finds out that it was sent before. See `model::key_receipt`.

use crate::error::Failure;
use crate::model::KeyReceiptDoc;
use crate::store::Store;
use cosmos::PartitionKey;
use std::time::Duration;

/// How often, and how long apart, a receipt is read that a lagging replica does not show.
const REREADS: u32 = 20;
const REREAD_WAIT: Duration = Duration::from_millis(10);

/// Whose receipt keeps a request from being accepted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// That of an attempt of this very call, whose answer was lost.
    Own,
    /// That of the same request.
    Same,
    /// That of another request with the same key.
    Other,
}

/// Compares the receipt of a request with the one that was there before. `None`: it has expired meanwhile.
pub(super) async fn earlier(
    store: &Store,
    pk: &PartitionKey,
    receipt: &KeyReceiptDoc,
) -> Result<Option<Earlier>, Failure> {
    // The refused write has told the client how new the replica must be; without that, a replica may lag.
    for _ in 0..REREADS {
        if let Some(found) = store.read::<KeyReceiptDoc>(pk, &receipt.id).await? {
            return Ok(Some(judge(receipt, &found.doc)));
        }
        tokio::time::sleep(REREAD_WAIT).await;
    }
    Ok(None)
}

fn judge(receipt: &KeyReceiptDoc, found: &KeyReceiptDoc) -> Earlier {
    if found.message == receipt.message {
        Earlier::Own
    } else if found.request == receipt.request {
        Earlier::Same
    } else {
        Earlier::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KeyedRequest;

    #[test]
    fn a_repetition_is_told_from_another_request_and_from_an_own_attempt() {
        let receipt = |request, message| KeyReceiptDoc::new("i", KeyedRequest::Start, "k", request, message);
        let mine = receipt("r", "m:1");
        for (found, expected) in [
            (receipt("r", "m:1"), Earlier::Own),
            (receipt("r", "m:2"), Earlier::Same),
            (receipt("s", "m:2"), Earlier::Other),
        ] {
            assert_eq!(judge(&mine, &found), expected);
        }
    }
}
