//! The passes of one run: first the look and the state, then a page of each in turn.
//!
//! Invariant: no pass gets its second page before every other pass had its first, or had the time for it; and each page
//! ends within its share of the time that is left.

use super::Maintenance;
use super::look::{DueSource, LookReport};
use super::needs::{self, Known};
use super::progress::{self, Progress};
use super::report::Report;
use super::request::{MaintenanceRequest, PassName};
use super::sweep::{Sweep, ms};
use super::wakeups::RunWakeups;
use duroxide::providers::ProviderError;
use duroxide_cosmos::{Look, MaintenanceState, PageRequest, PassOutcome, Retention};
use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;

/// A page with less time is not begun: no store answers so fast.
const LEAST_SHARE: Duration = Duration::from_millis(50);

/// The passes of one run.
pub(super) struct Passes<'a> {
    maintenance: &'a Maintenance,
    wakeups: RunWakeups,
    passes: Vec<Progress>,
    sweep: Option<Sweep>,
    /// Reminders that the sweep held back.
    held: u64,
    page_size: u32,
    retention: Retention,
    /// What waited when the run began.
    look: Option<Look>,
    look_report: Option<LookReport>,
    /// The state of the run before, until the sweep takes it.
    state: Option<MaintenanceState>,
    /// When the run began (Unix ms).
    run_ms: u64,
    /// The passes that search on their own in this run, because their interval is over.
    searching: BTreeSet<PassName>,
}

impl<'a> Passes<'a> {
    /// The passes that a request names.
    pub(super) fn new(maintenance: &'a Maintenance, request: &MaintenanceRequest, wakeups: RunWakeups) -> Passes<'a> {
        let settings = &maintenance.settings;
        let retention = request.retention.unwrap_or(settings.retention);
        let starved = maintenance.starved.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = |pass: PassName| {
            let is_off = pass == PassName::Retention && retention == Retention::default();
            Progress::new(pass, is_off, starved.contains(&pass))
        };
        let requested = request.passes.iter().copied();
        let mut passes: Vec<_> = requested.filter(|pass| *pass != PassName::Report).map(begin).collect();
        progress::order(&mut passes);
        Passes {
            maintenance,
            wakeups,
            passes,
            sweep: None,
            held: 0,
            page_size: request.page_size.unwrap_or(settings.page).max(1),
            retention,
            look: None,
            look_report: None,
            state: None,
            run_ms: maintenance.clock.now_ms(),
            searching: BTreeSet::new(),
        }
    }

    /// Begins a scheduled run: looks, reads the state, and completes the passes that need no page.
    pub(super) async fn begin(&mut self, request: &MaintenanceRequest, until: Instant) {
        let open = self.passes.iter().filter(|pass| pass.is_open()).count() as u32;
        let share = until.saturating_duration_since(Instant::now()) / (open + 1);
        if request.names_passes() || share < LEAST_SHARE {
            return;
        }
        let (maintenance, deadline) = (self.maintenance, Instant::now() + share);
        let (look, state) = futures::join!(maintenance.look(self.page_size, deadline), maintenance.state(deadline));
        self.look_report = Some(LookReport::of(&look));
        self.look = look.ok();
        self.state = state
            .inspect_err(|error| tracing::warn!(%error, "the state was not read; the sweep tries again"))
            .ok();
        let known = Known {
            look: self.look.as_ref(),
            state: self.state.as_ref(),
            now_ms: self.run_ms,
            interval_ms: ms(maintenance.settings.search_interval),
        };
        let is_named = |pass| pass == PassName::Retention && request.retention.is_some();
        for pass in self.passes.iter_mut().filter(|pass| pass.is_open()) {
            // What a request deletes is not what the settings say.
            if known.is_search_due(pass.pass) && !is_named(pass.pass) {
                self.searching.insert(pass.pass);
            }
            if !known.needs_page(pass.pass) && !is_named(pass.pass) {
                pass.needs_no_page();
            }
        }
    }

    /// Takes pages in turn until nothing is left, or until that moment.
    pub(super) async fn run(&mut self, until: Instant) {
        loop {
            let mut open = self.passes.iter().filter(|pass| pass.is_open()).count() as u32;
            if open == 0 {
                return;
            }
            for index in 0..self.passes.len() {
                if !self.passes[index].is_open() {
                    continue;
                }
                let left = until.saturating_duration_since(Instant::now());
                let share = self.passes[index].share(left, open);
                if share < LEAST_SHARE {
                    return;
                }
                let span = self.passes[index].pass.span();
                self.page(index, share).instrument(span).await;
                open -= 1;
            }
        }
    }

    /// One page of one pass, and the wakeups for the instances that have something to do now.
    async fn page(&mut self, index: usize, share: Duration) {
        let begun = Instant::now();
        let pass = self.passes[index].pass;
        let request = PageRequest {
            most: self.page_size,
            cursor: self.passes[index].cursor.clone(),
            deadline: begun + share,
        };
        let page = match pass {
            PassName::Sweep => self.sweep(request).await,
            _ => self.page_of_store(pass, request).await.map(|page| {
                let more = page.cursor.is_some();
                (page, more)
            }),
        };
        match page {
            Ok((page, more)) => {
                self.passes[index].completed(&page, more);
                self.wakeups.due(page.due).await;
            }
            Err(error) => self.passes[index].failed(&error, begun.elapsed(), share),
        }
    }

    async fn page_of_store(&self, pass: PassName, request: PageRequest) -> Result<PassOutcome, ProviderError> {
        let provider = &self.maintenance.provider;
        match pass {
            PassName::Outbox => provider.maintain_outbox(request).await,
            PassName::Unfinished => provider.maintain_unfinished(request).await,
            PassName::Sessions => provider.maintain_sessions(request).await,
            PassName::Retention => provider.maintain_retention(&self.retention, request).await,
            // They have no pages of this kind: see `sweep` and `Maintenance::run_passes`.
            PassName::Sweep | PassName::Report => Ok(PassOutcome::default()),
        }
    }

    async fn sweep(&mut self, request: PageRequest) -> Result<(PassOutcome, bool), ProviderError> {
        let (maintenance, now_ms) = (self.maintenance, self.maintenance.clock.now_ms());
        let sweep = match &mut self.sweep {
            Some(sweep) => sweep,
            None => {
                let state = match self.state.take() {
                    Some(state) => state,
                    None => maintenance.state(request.deadline).await?,
                };
                // The time of the look: the windows must not reach beyond it.
                let now_ms = self.look.as_ref().map_or(now_ms, Look::now_ms);
                let notifier = maintenance.notifier.clone();
                self.sweep
                    .insert(Sweep::new(state, &maintenance.settings, notifier, now_ms))
            }
        };
        let source = DueSource {
            provider: &maintenance.provider,
            look: self.look.as_ref(),
        };
        let (sent, more) = sweep.page(source, &mut self.wakeups, request, now_ms).await?;
        let page = PassOutcome {
            found: sent.sent + sent.failed + sent.left,
            done: sent.sent,
            failed: sent.failed,
            ..PassOutcome::default()
        };
        Ok((page, more))
    }

    /// Notes which passes had too little time.
    pub(super) fn note_starved(&self, starved: &mut BTreeSet<PassName>) {
        progress::note_starved(&self.passes, starved);
    }

    /// Keeps how far the sweep came, for the next run. If that fails, the next run covers the same time again.
    pub(super) async fn keep_state(&mut self, until: Instant) {
        let Some(mut sweep) = self.sweep.take() else {
            return;
        };
        let last = sweep.send_probes(&mut self.wakeups).await;
        self.held = sweep.held();
        if let Some(pass) = self.passes.iter_mut().find(|pass| pass.pass == PassName::Sweep) {
            pass.report.found += last.sent + last.failed + last.left;
            pass.report.done += last.sent;
            pass.report.failed += last.failed;
        }
        let mut state = sweep.into_state();
        let is_complete = |pass: &&Progress| self.searching.contains(&pass.pass) && pass.is_complete();
        for pass in self.passes.iter().filter(is_complete) {
            needs::searched(&mut state, pass.pass, self.run_ms);
        }
        let keep = self.maintenance.provider.keep_maintenance_state(state);
        let error = match timeout_at(until, keep).await {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => {
                tracing::info!("another run kept its state at the same time: some wakeups were sent twice");
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no time was left".to_owned(),
        };
        if let Some(sweep) = self.passes.iter_mut().find(|pass| pass.pass == PassName::Sweep) {
            let error = format!("the state of the sweep could not be kept: {error}");
            PassName::Sweep.span().in_scope(|| sweep.report.fail(error));
        }
    }

    /// The look of the run, if no pass has changed the store since.
    pub(super) fn fresh_look(&mut self) -> Option<Look> {
        // The sweep only reads.
        let writes = |pass: &&Progress| pass.pass != PassName::Sweep;
        let may_have_written = |pass: &Progress| pass.report.found > 0 || pass.is_open() || pass.report.error.is_some();
        let has_changed = self.passes.iter().filter(writes).any(may_have_written);
        self.look.take().filter(|_| !has_changed)
    }

    /// What the passes did.
    pub(super) fn into_report(mut self) -> Report {
        for pass in &mut self.passes {
            pass.pass.span().in_scope(|| pass.close());
        }
        Report {
            wakeups_sent: self.wakeups.sent,
            wakeups_failed: self.wakeups.failed,
            reminders_held: self.held,
            look: self.look_report,
            passes: self.passes.into_iter().map(|pass| (pass.pass, pass.report)).collect(),
            ..Report::default()
        }
    }
}
