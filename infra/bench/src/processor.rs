//! Where the processor time goes: the emulator has a runtime of its own, so its threads differ from those of the provider and
//! duroxide by their name. Linux only; elsewhere nothing is known, and nothing is printed.

use std::fs;
use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

/// Threads have names of at most 15 bytes.
const EMULATOR: &str = "emulator";

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .thread_name(EMULATOR)
        .enable_all()
        .build()
        .expect("a runtime for the emulator starts")
});

/// The runtime of the emulator.
pub fn of_emulator() -> &'static Runtime {
    &RUNTIME
}

/// The processor seconds of a process so far, without threads that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessorTime {
    /// Those of the emulator.
    pub emulator: f64,
    /// Those of everything else.
    pub rest: f64,
}

impl ProcessorTime {
    /// As of now.
    pub fn now() -> ProcessorTime {
        let mut time = ProcessorTime::default();
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for thread in threads.map(|thread| thread.path()) {
            let (name, spent) = (
                fs::read_to_string(thread.join("comm")),
                fs::read_to_string(thread.join("schedstat")),
            );
            // A thread may end in between.
            let (Ok(name), Ok(spent)) = (name, spent) else { continue };
            let nanoseconds: f64 = spent
                .split(' ')
                .next()
                .and_then(|first| first.parse().ok())
                .unwrap_or(0.0);
            let sum = if name.trim() == EMULATOR {
                &mut time.emulator
            } else {
                &mut time.rest
            };
            *sum += nanoseconds / 1e9;
        }
        time
    }

    /// What was spent since.
    pub fn since(self, earlier: ProcessorTime) -> ProcessorTime {
        ProcessorTime {
            emulator: (self.emulator - earlier.emulator).max(0.0),
            rest: (self.rest - earlier.rest).max(0.0),
        }
    }
}
