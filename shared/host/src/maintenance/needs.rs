//! Which passes of a run need a page. Pure decisions, no I/O.
//!
//! A scheduled run begins with a *look* at everything that waits (`duroxide_cosmos::Look`). When the look is whole, a pass for which
//! it has nothing due is complete without a request. Two passes also have something that no look can show, so they search on
//! their own at longer intervals (`MAINTENANCE_SEARCH_MINUTES`):
//!
//! | pass | needs a page when |
//! |---|---|
//! | outbox, unfinished | the look has such a document, or there is no whole look |
//! | sessions | the same; and once an interval, for affinity sessions that an older release wrote without `dueAt` |
//! | sweep | always: it takes its items from the look, and keeps the state |
//! | retention | once an interval. Finished instances are not due |
//!
//! When the interval began is in the state document, and it is written only after the pass has reached its end: what is left over,
//! done in part or has failed is continued by the next run. A state that is unknown, or of a clock that was ahead, means that the interval is
//! over. So at worst a pass searches too often.
//!
//! A request that names passes, or retention, gets all of them at once, without a look.

use super::request::{MaintenanceRequest, PassName};
use duroxide_cosmos::{Look, MaintenanceState, Searched};

/// What a run knows when it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    pub(super) look: Option<&'a Look>,
    pub(super) state: Option<&'a MaintenanceState>,
    pub(super) now_ms: u64,
    /// Between two searches of a pass on its own, in ms.
    pub(super) interval_ms: u64,
}

impl MaintenanceRequest {
    /// Whether the request names some of the passes, rather than what is to be done at this time.
    pub(super) fn names_passes(&self) -> bool {
        self.passes.len() < PassName::ALL.len()
    }
}

impl Known<'_> {
    /// Whether the pass needs a page in a scheduled run.
    pub(super) fn needs_page(&self, pass: PassName) -> bool {
        match pass {
            PassName::Outbox => self.may_have(Searched::Intents),
            PassName::Unfinished => self.may_have(Searched::Unfinished),
            PassName::Sessions => self.may_have(Searched::Sessions) || self.is_search_due(pass),
            PassName::Retention => self.is_search_due(pass),
            PassName::Sweep | PassName::Report => true,
        }
    }

    /// Whether the interval of a pass that searches on its own is over.
    pub(super) fn is_search_due(&self, pass: PassName) -> bool {
        let Some(last_ms) = last_search(self.state, pass) else {
            return false;
        };
        let is_ahead = last_ms > self.now_ms;
        is_ahead || self.now_ms - last_ms >= self.interval_ms
    }

    fn may_have(&self, searched: Searched) -> bool {
        let look = self.look.filter(|look| look.is_whole());
        look.is_none_or(|look| look.has_due(searched))
    }
}

/// When the pass last searched on its own; 0 if that is not known, `None` if it never does.
fn last_search(state: Option<&MaintenanceState>, pass: PassName) -> Option<u64> {
    match pass {
        PassName::Sessions => Some(state.map_or(0, |state| state.sessions_ms)),
        PassName::Retention => Some(state.map_or(0, |state| state.retained_ms)),
        PassName::Outbox | PassName::Unfinished | PassName::Sweep | PassName::Report => None,
    }
}

/// A pass that searches on its own has reached its end, in a run that began then.
pub(super) fn searched(state: &mut MaintenanceState, pass: PassName, run_ms: u64) {
    match pass {
        PassName::Sessions => state.sessions_ms = run_ms,
        PassName::Retention => state.retained_ms = run_ms,
        PassName::Outbox | PassName::Unfinished | PassName::Sweep | PassName::Report => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_760_000_000_000;
    const HOUR: u64 = 3_600_000;

    fn needed(known: Known<'_>) -> Vec<PassName> {
        let passes = PassName::ALL.into_iter();
        passes.filter(|pass| known.needs_page(*pass)).collect()
    }

    fn state(sessions_ms: u64, retained_ms: u64) -> MaintenanceState {
        let mut state = MaintenanceState::default();
        searched(&mut state, PassName::Sessions, sessions_ms);
        searched(&mut state, PassName::Retention, retained_ms);
        state
    }

    #[test]
    fn a_pass_searches_on_its_own_once_an_interval_and_whenever_that_is_not_known() {
        use PassName::*;
        // Without a look, outbox, unfinished and sessions search in every run.
        for (last_ms, is_due) in [
            (0, true),
            (NOW - HOUR, true),
            (NOW - HOUR - 1, true),
            (NOW - HOUR + 1, false),
            (NOW, false),
            (NOW + 1, true),
        ] {
            let state = state(NOW, last_ms);
            let known = Known {
                state: Some(&state),
                now_ms: NOW,
                interval_ms: HOUR,
                look: None,
            };
            assert_eq!(known.is_search_due(Retention), is_due, "{last_ms}");
            assert!(!known.is_search_due(Sessions));
            assert_eq!(needed(known).contains(&Retention), is_due, "{last_ms}");
        }
        let unknown = Known {
            now_ms: NOW,
            interval_ms: HOUR,
            ..Known::default()
        };
        assert_eq!(needed(unknown), PassName::ALL);
        let searching = PassName::ALL.into_iter().filter(|pass| unknown.is_search_due(*pass));
        assert_eq!(searching.collect::<Vec<_>>(), [Sessions, Retention]);
    }

    #[test]
    fn a_look_that_is_not_whole_leaves_nothing_out() {
        let (look, state) = (Look::default(), state(NOW, NOW));
        assert!(!look.is_whole());
        let known = Known {
            look: Some(&look),
            state: Some(&state),
            now_ms: NOW,
            interval_ms: HOUR,
        };
        use PassName::*;
        assert_eq!(needed(known), [Outbox, Unfinished, Sessions, Sweep, Report]);
    }

    #[test]
    fn only_the_passes_with_a_time_of_their_own_change_the_state() {
        let mut state = state(5, 6);
        for pass in [
            PassName::Outbox,
            PassName::Unfinished,
            PassName::Sweep,
            PassName::Report,
        ] {
            searched(&mut state, pass, 99);
        }
        assert_eq!((state.sessions_ms, state.retained_ms), (5, 6));
    }
}
