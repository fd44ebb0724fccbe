//! Shows the progress of the demo: a bar that is redrawn in place on a terminal, an occasional line in a pipe.

use crate::terminal::text::escape;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use local_cloud::demo::Progress;
use std::time::Duration;

const TEMPLATE: &str = "  {bar:30}  {pos} of {len} orders   {elapsed}\n  {prefix}\n  {msg}";
/// The pause between two lines in a pipe.
const LINE_PAUSE: Duration = Duration::from_secs(2);

/// Removes the bar when it is dropped.
pub(super) struct ProgressView {
    bar: ProgressBar,
    last_line: Option<Progress>,
}

impl ProgressView {
    pub(super) fn new() -> ProgressView {
        // A pipe hides the bar, and so must a terminal that cannot move its cursor.
        let target = match std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stdout(),
        };
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is well-formed");
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style.progress_chars("█░"));
        ProgressView { bar, last_line: None }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if self.bar.is_hidden() {
            if self.is_worth_a_line(progress) {
                println!("{}", line(progress));
                self.last_line = Some(progress.clone());
            }
            return;
        }
        self.bar.set_length(progress.orders as u64);
        self.bar.set_position(finished(progress));
        self.bar.set_prefix(counts(progress));
        self.bar.set_message(stages(progress));
    }

    /// Whether something changed since the last line, which was not too recent.
    fn is_worth_a_line(&self, progress: &Progress) -> bool {
        let Some(last) = &self.last_line else {
            return true;
        };
        let elapsed = last.elapsed;
        let changed = Progress {
            elapsed,
            ..progress.clone()
        } != *last;
        changed && progress.elapsed.saturating_sub(elapsed) >= LINE_PAUSE
    }
}

impl Drop for ProgressView {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn finished(progress: &Progress) -> u64 {
    (progress.shipped + progress.refused + progress.failed) as u64
}

fn counts(progress: &Progress) -> String {
    let failed = match progress.failed {
        0 => String::new(),
        failed => format!("   failed {failed}"),
    };
    let Progress {
        shipped,
        refused,
        kills,
        ..
    } = progress;
    format!("shipped {shipped}   refused {refused}{failed}   processes killed {kills}")
}

fn stages(progress: &Progress) -> String {
    let stages = progress.stages.iter();
    let stages: Vec<String> = stages
        .map(|(stage, count)| format!("{} {count}", escape(stage)))
        .collect();
    stages.join(" · ")
}

fn line(progress: &Progress) -> String {
    let text = format!(
        "{:5.1} s  {} of {} orders   {}   {}",
        progress.elapsed.as_secs_f64(),
        finished(progress),
        progress.orders,
        counts(progress),
        stages(progress)
    );
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn progress() -> Progress {
        Progress {
            elapsed: Duration::from_millis(4_200),
            orders: 30,
            shipped: 10,
            refused: 5,
            failed: 0,
            stages: BTreeMap::from([("cooling-off".to_owned(), 9), ("ship\u{1b}ping".to_owned(), 6)]),
            kills: 3,
        }
    }

    #[test]
    fn a_line_has_counts_and_escaped_stages() {
        assert_eq!(
            line(&progress()),
            "  4.2 s  15 of 30 orders   shipped 10   refused 5   processes killed 3   cooling-off 9 · ship\\u{1b}ping 6"
        );
    }

    #[test]
    fn a_pipe_gets_a_line_after_a_change_and_not_too_often() {
        let mut now = progress();
        let mut view = ProgressView {
            bar: ProgressBar::hidden(),
            last_line: None,
        };
        assert!(view.is_worth_a_line(&now));
        view.last_line = Some(now.clone());
        now.elapsed += LINE_PAUSE;
        assert!(!view.is_worth_a_line(&now), "nothing has changed");
        now.shipped += 1;
        assert!(view.is_worth_a_line(&now));
        now.elapsed -= Duration::from_millis(1);
        assert!(!view.is_worth_a_line(&now), "too soon");
    }
}
