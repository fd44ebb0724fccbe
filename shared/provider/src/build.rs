//! The build that a process runs.

use std::fmt;
use std::sync::OnceLock;

/// The build that a process runs: what one build cannot go on with, another may. Its name is made when it is asked for,
/// because most processes never meet anything that is blocked.
pub struct Build {
    name: OnceLock<String>,
    of: Box<dyn Fn() -> String + Send + Sync>,
}

impl Build {
    /// A build that this function names.
    pub fn new(of: impl Fn() -> String + Send + Sync + 'static) -> Build {
        Build {
            name: OnceLock::new(),
            of: Box::new(of),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.name.get_or_init(|| (self.of)())
    }
}

impl fmt::Debug for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Build").field(&self.name).finish()
    }
}
