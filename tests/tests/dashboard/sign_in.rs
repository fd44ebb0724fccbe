//! Sign-in, and what each role sees.

use crate::browser::run;
use crate::issuer::Issuer;
use crate::seed::{orders, workflows};
use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use duroxide_lambda::config::ApiAuth;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tests::ShiftedClock;
use tests::api::{GivingUp, Options, Served, Site, Web, iam};

/// A site whose tokens are checked by this clock, with what it holds. Nobody is asked who they are while it is filled.
async fn site(auth: ApiAuth, clock: &Arc<ShiftedClock>) -> Site {
    Site::with(Options {
        auth,
        clock: Arc::clone(clock) as Arc<_>,
        workflows: workflows::all(),
        ..Options::default()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium"]
async fn people_sign_in_with_an_issuer_and_see_what_their_role_allows() -> Result<()> {
    let issuer = Issuer::start().await;
    let clock = Arc::new(ShiftedClock::default());
    let site = site(issuer.auth(), &clock).await;
    seed(&site).await;
    let served = Served::of(site).await;
    async fn later(State(clock): State<Arc<ShiftedClock>>) -> &'static str {
        clock.advance(Duration::from_secs(3_600));
        "{}"
    }
    let control = Web::start(0, Router::new().route("/later", post(later)).with_state(clock)).await?;
    let world = json!({ "api": served.url, "origins": [issuer.url], "issuer": issuer.url, "control": control.url() });
    run(&world, &["roles", "sign_in", "renewal", "expiry"]).await
}

/// An order and a dead letter, by the store: the API takes requests with a token only.
async fn seed(site: &Site) {
    let orders = orders::each();
    let order = &orders[orders.len() - 1];
    let client = &site.cloud.client;
    let input = orders::input(order).to_string();
    client
        .start_orchestration(order.id, ::workflows::FULFIL_ORDER, input)
        .await
        .expect("it starts");
    site.cloud.drain().await;
    client
        .start_orchestration("mail-1", workflows::MAIL, "ada@example.org")
        .await
        .expect("it starts");
    site.give_up(GivingUp {
        instance: "mail-1",
        activity: workflows::DELIVER,
        reason: "it was tried 10 times",
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium"]
async fn without_a_signature_of_aws_the_page_says_what_to_do() -> Result<()> {
    let served = Served::of(site(iam(), &Arc::default()).await).await;
    run(&json!({ "api": served.url }), &["unsigned"]).await
}
