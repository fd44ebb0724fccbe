//! The HTTP client, created when it is first needed.
//!
//! Creating one reads and parses the machine's root certificates, which takes longer than everything else at the start
//! of a process. A function can do that in parallel to the rest of its start ([`warm`](crate::Container::warm)).

use std::sync::OnceLock;
use std::time::Duration;

use crate::error::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Http {
    client: OnceLock<reqwest::Client>,
    https_only: bool,
}

impl Http {
    pub(crate) fn new(https_only: bool) -> Http {
        Http {
            client: OnceLock::new(),
            https_only,
        }
    }

    /// The client. Two first callers at the same time may each create one; one of them is kept.
    pub(crate) fn client(&self) -> Result<&reqwest::Client, Error> {
        match self.client.get() {
            Some(client) => Ok(client),
            None => {
                let made = self.make().map_err(|source| Error::HttpClient { source })?;
                Ok(self.client.get_or_init(|| made))
            }
        }
    }

    fn make(&self) -> reqwest::Result<reqwest::Client> {
        reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .pool_idle_timeout(Duration::from_secs(90))
            .connect_timeout(CONNECT_TIMEOUT)
            .https_only(self.https_only)
            .build()
    }
}
