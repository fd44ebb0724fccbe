//! Refusing chosen requests, so that a test can make one target fail and no other.

use hyper::StatusCode;

use crate::count::RequestRecord;
use crate::http::Reply;

/// Decides whether and how to refuse a request.
pub(super) type Refuse = Box<dyn Fn(&RequestRecord) -> Option<Refusing> + Send>;

/// The reply to a request that a test refuses. Nothing of the request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// The HTTP status.
    pub status: u16,
    /// The `x-ms-substatus`.
    pub substatus: Option<u32>,
}

impl Refusing {
    /// A refusal with a status and no substatus.
    pub fn with(status: u16) -> Refusing {
        Refusing {
            status,
            substatus: None,
        }
    }

    /// The logical partition is full: 403/1014.
    pub fn partition_full() -> Refusing {
        Refusing {
            status: 403,
            substatus: Some(1014),
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        Reply::error(status, self.substatus, "This request was refused on behalf of a test.")
    }
}
