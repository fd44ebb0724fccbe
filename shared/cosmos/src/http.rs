//! The HTTP client, made when it is first needed.
//!
//! Making one reads and parses the machine's root certificates, which takes longer than everything else that a process
//! does at its start. A function that is started for each request wants to be ready before that, and to do it beside
//! ([`warm`](crate::Container::warm)).

use std::sync::OnceLock;
use std::time::Duration;

use crate::Error;

#[derive(Debug)]
pub(crate) struct Http {
    client: OnceLock<reqwest::Client>,
    connect_timeout: Duration,
    https_only: bool,
}

impl Http {
    pub(crate) fn new(connect_timeout: Duration, https_only: bool) -> Http {
        Http {
            client: OnceLock::new(),
            connect_timeout,
            https_only,
        }
    }

    /// The client. Two who come first at once make two, and one of them is kept.
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
            .connect_timeout(self.connect_timeout)
            .https_only(self.https_only)
            .build()
    }
}
