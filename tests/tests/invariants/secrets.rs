//! The key does not show in any log, however much is logged. A test of its own: it watches the whole process.

use cosmos_emulator::{Faults, ServerOptions};
use duroxide::providers::Provider;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::turns::*;
use tests::{World, connect};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Captured;

    fn make_writer(&'a self) -> Captured {
        self.clone()
    }
}

/// One thread, so that the subscriber of this thread gets everything.
#[tokio::test(flavor = "current_thread")]
async fn no_log_line_holds_the_key_or_a_signature() {
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(captured.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let world = World::local(ServerOptions::default()).await;
    let provider = connect(world.builder().operation_timeout(Duration::from_secs(10))).await;
    begin_with(&provider, "order", 3, named()).await;
    world.listener().set_faults(Faults {
        seed: 3,
        throttled: 0.3,
        lost_after: 0.2,
        retry_after: Duration::from_millis(1),
        ..Faults::default()
    });
    enqueue(&provider, raised("order", "x")).await;
    let turn = turn(&provider, "order").await;
    let decision = Decision::of(vec![heard("order", 1, 5)]);
    commit(&provider, &turn.lock_token, decision)
        .await
        .expect("it commits despite the faults");
    world.listener().close();
    assert!(provider.read("order").await.is_err(), "a closed listener fails");
    drop(guard);

    let bytes = captured.0.lock().expect("no panic").clone();
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.contains("cosmos") && text.lines().count() > 20,
        "the subscriber got something"
    );
    let key = world.listener().key();
    assert!(!text.contains(&key) && !text.contains(&key[..20]), "the key is logged");
    for mark in ["type%3Dmaster", "type=master", "sig%3D"] {
        let line = text.lines().find(|line| line.contains(mark));
        assert!(line.is_none(), "a signature is logged: {line:?}");
    }
}
