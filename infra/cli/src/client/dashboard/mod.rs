//! `duroxide-lambda dashboard`: the dashboard of a deployment in a browser of this machine.
//!
//! A browser cannot sign requests with AWS credentials. So this command listens on the loopback interface, and passes requests on to the
//! API with the credentials of this shell (`proxy`).
//!
//! ```text
//!   browser ── http://127.0.0.1:PORT/SECRET/v1/... ──> proxy ── signed, or with a token ──> API
//! ```
//!
//! Whoever reaches the proxy acts with these credentials. So its address has a secret that nobody can guess, and the server refuses
//! requests of other web pages (a foreign `Host`, `Origin` or `Sec-Fetch-Site`).

mod proxy;

use super::answer::{Answer, Failure, line};
use super::connection::Connection;
use super::{Common, examples};
use crate::loopback::HttpServer;
use crate::terminal::text::escape;
use crate::{ambient, stop_requested};
use clap::Args;
use proxy::Proxy;
use serde_json::json;
use std::sync::Arc;

/// The largest body that is passed on: the API takes 2 MiB.
const LARGEST_BODY: usize = 4 << 20;

/// Open the dashboard of a deployment whose requests must be signed.
///
/// Listens on this machine, and passes requests of your browser on with the AWS credentials or the token of this shell, until Ctrl-C.
/// The address has a secret: whoever has it acts with your credentials. A local cloud, and a deployment with sign-in by OpenID
/// Connect, have their dashboard at the address of the API itself.
#[derive(Debug, Args)]
#[command(after_help = examples(&["dashboard --profile production", "dashboard --url https://abc.lambda-url.eu-central-1.on.aws --port 9500"]))]
pub struct Dashboard {
    /// The port on 127.0.0.1 [default: any free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    #[command(flatten)]
    pub(super) common: Common,
}

impl Dashboard {
    pub(super) async fn act(self, connection: Connection) -> Result<Answer, Failure> {
        let me = connection.me().await?;
        let bound = HttpServer::bind(self.port).await.map_err(|error| {
            Failure::error(format!(
                "port {} cannot be used ({error}): choose another with --port",
                self.port
            ))
        })?;
        let secret = ambient::unique();
        let url = format!("http://{}/{secret}/", bound.address());
        let proxy = Arc::new(Proxy::new(connection, &secret));
        let _server = bound.serve(LARGEST_BODY, move |request| {
            let proxy = Arc::clone(&proxy);
            async move { Some(proxy.answer(request).await) }
        });
        let text = match self.common.json {
            true => json!({ "url": url, "who": me.who, "role": me.role }).to_string(),
            false => format!(
                "The dashboard is at {url}\nYou are {} ({}). Whoever has this address acts as you. Ctrl-C stops it.",
                escape(&me.who),
                json!(me.role).as_str().unwrap_or_default(),
            ),
        };
        line(&text)?;
        let stop = stop_requested().await;
        stop.map_err(|error| Failure::error(format!("signals cannot be received: {error}")))?;
        Ok(Answer::silent())
    }
}
