//! Accessibility and screenshots of every screen, in light and dark.
//!
//! The pictures are made by one command, and are in the repository:
//!
//! ```sh
//! UPDATE_SCREENSHOTS=1 cargo test -p tests --test dashboard -- --ignored every_screen
//! ```
//!
//! Pixels differ from machine to machine, so pictures are not compared. What is compared is the outline of each screen: its headings,
//! columns, fields, tabs and buttons, which is written beside the pictures when they are made. A change of colours or distances needs no new
//! pictures; a screen that has got or lost something does.

use crate::browser::run;
use crate::seed::documents::{Past, load};
use crate::seed::{orders, trouble, workflows};
use anyhow::{Context as _, Result, ensure};
use cosmos::{Clock as _, SystemClock};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tests::api::{Options, Served, Site};

const HOUR_MS: u64 = 3_600_000;
const MOST_BYTES: u64 = 1_000_000;

/// The screens, by the name of their pictures, and the part of the address.
const SCREENS: [(&str, &str); 17] = [
    ("overview", "#/"),
    ("instances", "#/instances?name=fulfil-order"),
    ("attention", "#/instances?attention=true"),
    ("timeline", "#/instances/order-1045"),
    ("running", "#/instances/order-1047"),
    ("explained", "#/instances/invoice-1"),
    ("events", "#/instances/order-1043/events"),
    ("tree", "#/instances/order-1045/tree"),
    ("keys", "#/instances/order-1045/keys"),
    ("executions", "#/instances/rounds-1/executions"),
    ("batch-new", "#/batches/new?status=Failed&name=fulfil-order"),
    ("batch", "#/batches"),
    ("batches", "#/batches"),
    ("dead-letters", "#/dead-letters"),
    ("dead-letter", "#/dead-letters/mail-1"),
    ("start", "#/start?name=fulfil-order&id=order-1048"),
    ("raise", "#/instances/order-1047"),
];
/// The one that is shown as on a telephone, too.
const NARROW: &str = "timeline";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn pictures() -> PathBuf {
    docs().join("images/dashboard")
}

/// The files that there must be.
fn files() -> Vec<String> {
    let themes = SCREENS
        .iter()
        .flat_map(|(name, _)| ["light", "dark"].map(|theme| format!("{name}-{theme}.webp")));
    themes.chain([format!("{NARROW}-narrow.webp")]).collect()
}

/// A deployment with a day behind it, orders of every outcome, and work that was given up.
async fn shop() -> Site {
    let site = Site::with(Options {
        workflows: workflows::plain(),
        ..Options::default()
    })
    .await;
    let now = SystemClock.now_ms();
    let day = (0..240_u64).flat_map(|n| {
        let id = format!("order-{:04}", 800 + n);
        // More in the middle of the day than at its ends.
        let created_at = now - 24 * HOUR_MS + n * n % 240 * (23 * HOUR_MS / 240);
        let past = Past {
            id: &id,
            name: if n % 5 == 0 { "send-mail" } else { "fulfil-order" },
            created_at,
            took_ms: 4_000 + n % 7 * 900,
            error: (n % 60 == 59).then_some("the carrier did not answer within 30 s"),
        };
        past.documents()
    });
    load(&site.cloud.world, day).await;
    orders::seed(&site).await;
    site.ran(workflows::ROUNDS, "rounds-1", json!(3)).await;
    batches(&site).await;
    trouble::seed(&site).await;
    site
}

/// A dry run, and a batch in which the instances refuse that have not ended.
async fn batches(site: &Site) {
    for id in ["tour-1", "tour-2", "tour-3", "tour-4"] {
        site.started(workflows::WAIT, id, json!("")).await;
    }
    site.cloud.drain().await;
    for id in ["tour-1", "tour-3"] {
        let go = format!("/v1/instances/{id}/events/go");
        site.post(&go, json!({ "data": "now" })).await.is(202);
    }
    site.cloud.drain().await;
    for dry_run in [true, false] {
        let filter = json!({ "name": workflows::WAIT, "prefix": "tour-" });
        let delete = json!({ "filter": filter, "action": "delete", "dryRun": dry_run });
        site.post("/v1/batches", delete).await.is(202);
        site.cloud.drain().await;
    }
}

fn world(served: &Served) -> Value {
    let screens: Vec<Value> = SCREENS
        .iter()
        .map(|(name, hash)| json!({ "name": name, "hash": hash, "narrow": *name == NARROW }))
        .collect();
    let update = std::env::var_os("UPDATE_SCREENSHOTS").is_some();
    json!({ "api": served.url, "screens": screens, "pictures": update.then(pictures), "outline": pictures().join("outline.txt") })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: Node and Chromium; UPDATE_SCREENSHOTS=1 makes the pictures of docs/dashboard.md"]
async fn every_screen_is_accessible_in_light_and_dark_and_is_as_its_picture() -> Result<()> {
    let served = Served::of(shop().await).await;
    fs::create_dir_all(pictures())?;
    run(&world(&served), &["accessible", "pictures"]).await
}

#[test]
fn the_document_shows_every_screen_and_the_pictures_are_small() -> Result<()> {
    let text = fs::read_to_string(docs().join("dashboard.md"))?;
    let mut bytes = 0;
    for file in files() {
        ensure!(
            text.contains(&format!("images/dashboard/{file}")),
            "docs/dashboard.md does not show {file}"
        );
        bytes += fs::metadata(pictures().join(&file))
            .with_context(|| file.clone())?
            .len();
    }
    ensure!(bytes < MOST_BYTES, "{bytes} bytes");
    let shown = text.matches("images/dashboard/").count();
    ensure!(
        shown == files().len(),
        "{shown} pictures in the document, {} in the list",
        files().len()
    );
    Ok(())
}
