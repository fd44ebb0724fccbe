//! The planned crash of a listener at its n-th write.

/// Whether the write at which a listener crashes is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Nothing was written.
    BeforeApplied,
    /// It was written, and the client gets no reply.
    AfterApplied,
}

/// How far a listener is from its planned crash.
#[derive(Debug, Default)]
pub(crate) enum CrashPlan {
    #[default]
    None,
    Planned {
        writes_left: u64,
        when: CrashPoint,
    },
    Done,
}

/// What a planned crash does to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashStep {
    /// No crash.
    Pass,
    /// The listener crashes at this write.
    Crash(CrashPoint),
    /// The listener has crashed already.
    Crashed,
}

impl CrashPlan {
    pub(crate) fn at_write(n: u64, when: CrashPoint) -> CrashPlan {
        CrashPlan::Planned {
            writes_left: n.max(1),
            when,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, CrashPlan::Done)
    }

    /// Counts a write.
    pub(crate) fn next_write(&mut self) -> CrashStep {
        match self {
            CrashPlan::None => CrashStep::Pass,
            CrashPlan::Done => CrashStep::Crashed,
            CrashPlan::Planned { writes_left, when } => {
                *writes_left -= 1;
                let when = *when;
                if *writes_left > 0 {
                    return CrashStep::Pass;
                }
                *self = CrashPlan::Done;
                CrashStep::Crash(when)
            }
        }
    }
}
