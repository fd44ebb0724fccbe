//! A site on a port of this machine, whose functions run by themselves: for browsers, and for clients in other languages.

use super::site::{Options, Site};
use super::web::Web;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// See the module.
pub struct Served {
    /// The address of the API.
    pub url: String,
    /// The site.
    pub site: Arc<Site>,
    port: u16,
    server: Mutex<Option<Web>>,
    functions: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.functions.abort();
    }
}

impl Served {
    /// A site of these options.
    pub async fn with(options: Options) -> Served {
        Served::of(Site::with(options).await).await
    }

    /// Serves a site, which may have something in it already.
    pub async fn of(site: Site) -> Served {
        let site = Arc::new(site);
        let server = Web::start(0, site.router.clone()).await.expect("a free port");
        let running = Arc::clone(&site);
        let functions = tokio::spawn(async move {
            loop {
                running.cloud.drain().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Served {
            url: server.url(),
            site,
            port: server.port(),
            server: Mutex::new(Some(server)),
            functions,
        }
    }

    /// Closes the port and every connection, as the death of the API does.
    pub fn take_down(&self) {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Serves again, at the same address.
    pub async fn bring_up(&self) -> std::io::Result<()> {
        let server = Web::start(self.port, self.site.router.clone()).await?;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(())
    }
}
