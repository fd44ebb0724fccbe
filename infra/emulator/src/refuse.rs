//! Refusing chosen requests, so that a test makes one target fail and leaves all others alone.

use hyper::StatusCode;

use crate::count::RequestRecord;
use crate::http::Reply;

/// Tells whether this request is refused, and how.
pub(super) type Refuse = Box<dyn Fn(&RequestRecord) -> Option<Refusing> + Send>;

/// How a request is refused. Nothing of it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// The HTTP status.
    pub status: u16,
    /// The service's finer status, as `x-ms-substatus`.
    pub substatus: Option<u32>,
}

impl Refusing {
    /// A refusal with this status alone.
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
        Reply::error(
            status,
            self.substatus,
            "This request is refused because a test wants it.",
        )
    }
}
