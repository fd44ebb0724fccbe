//! How the orders are getting on, for whoever watches: redrawn in place on a terminal, now and then a line elsewhere.

use crate::term::text::cut;
use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _, stdout};
use std::time::Duration;

const BAR: usize = 30;
/// On what is no terminal, a line at most so often.
const PLAIN_PAUSE: Duration = Duration::from_secs(2);

/// One moment of the demo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub elapsed: Duration,
    pub orders: usize,
    pub shipped: usize,
    pub refused: usize,
    pub failed: usize,
    /// Orders that are not over, by their stage.
    pub stages: BTreeMap<String, usize>,
    pub kills: u64,
}

/// Who shows it.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    columns: usize,
    /// Lines of the last picture.
    drawn: usize,
    said: Option<(Duration, Moment)>,
}

impl Progress {
    pub fn of_stdout() -> Progress {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let columns = terminal_size::terminal_size().map_or(80, |(terminal_size::Width(columns), _)| columns.into());
        Progress {
            terminal: stdout().is_terminal() && !dumb,
            columns,
            drawn: 0,
            said: None,
        }
    }

    /// Shows a moment.
    pub fn show(&mut self, moment: &Moment) {
        if self.terminal {
            let lines = picture(moment, self.columns);
            let mut out = self.erased();
            for line in &lines {
                out += &format!("{line}\n");
            }
            self.drawn = lines.len();
            write(&out);
        } else if self.is_worth_a_line(moment) {
            write(&format!("{}\n", plain(moment)));
            self.said = Some((moment.elapsed, moment.clone()));
        }
    }

    /// Takes the picture away: what is printed next stands in its place.
    pub fn clear(&mut self) {
        if self.terminal {
            write(&self.erased());
            self.drawn = 0;
        }
    }

    fn erased(&self) -> String {
        match self.drawn {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\u{1b}[J"),
        }
    }

    fn is_worth_a_line(&self, moment: &Moment) -> bool {
        let Some((at, before)) = &self.said else {
            return true;
        };
        let same = Moment {
            elapsed: before.elapsed,
            ..moment.clone()
        };
        moment.elapsed.saturating_sub(*at) >= PLAIN_PAUSE && same != *before
    }
}

fn write(text: &str) {
    let mut out = stdout().lock();
    // Nobody can be told that nobody listens.
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .unwrap_or_default();
}

fn over(moment: &Moment) -> usize {
    moment.shipped + moment.refused + moment.failed
}

fn picture(moment: &Moment, columns: usize) -> Vec<String> {
    let over = over(moment);
    let filled = (BAR * over).checked_div(moment.orders).unwrap_or(0);
    let bar = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
    let first = format!(
        "  {bar}  {over} of {} orders   {:.0} s",
        moment.orders,
        moment.elapsed.as_secs_f64()
    );
    let second = format!(
        "  shipped {}   refused {}{}   processes killed {}",
        moment.shipped,
        moment.refused,
        failures(moment),
        moment.kills
    );
    let third = format!("  {}", stages(moment));
    [first, second, third]
        .iter()
        .map(|line| cut(line, columns.saturating_sub(1)))
        .collect()
}

fn plain(moment: &Moment) -> String {
    format!(
        "{:5.1} s  {} of {} orders: shipped {}, refused {}{}; {}; processes killed: {}",
        moment.elapsed.as_secs_f64(),
        over(moment),
        moment.orders,
        moment.shipped,
        moment.refused,
        failures(moment),
        stages(moment),
        moment.kills,
    )
}

fn failures(moment: &Moment) -> String {
    match moment.failed {
        0 => String::new(),
        failed => format!("   FAILED {failed}"),
    }
}

fn stages(moment: &Moment) -> String {
    if moment.stages.is_empty() {
        return "all are over".to_owned();
    }
    let stages: Vec<String> = moment
        .stages
        .iter()
        .map(|(stage, count)| format!("{stage} {count}"))
        .collect();
    stages.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Moment {
        Moment {
            elapsed: Duration::from_millis(4_200),
            orders: 30,
            shipped: 10,
            refused: 5,
            failed: 0,
            stages: BTreeMap::from([("cooling-off".to_owned(), 9), ("shipping".to_owned(), 6)]),
            kills: 3,
        }
    }

    #[test]
    fn a_picture_fits_the_terminal_and_says_how_far_the_orders_are() {
        let lines = picture(&moment(), 200);
        assert!(
            lines[0].contains("15 of 30 orders") && lines[0].contains(&"█".repeat(15)),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("shipped 10   refused 5   processes killed 3"),
            "{lines:?}"
        );
        assert_eq!(lines[2], "  cooling-off 9 · shipping 6");
        assert!(
            picture(&moment(), 20)
                .iter()
                .all(|line| crate::term::text::width(line) < 20)
        );
    }

    #[test]
    fn what_is_no_terminal_gets_a_line_when_there_is_news_and_not_too_often() {
        let mut progress = Progress {
            terminal: false,
            columns: 80,
            drawn: 0,
            said: None,
        };
        let mut now = moment();
        assert!(progress.is_worth_a_line(&now));
        progress.said = Some((now.elapsed, now.clone()));
        now.elapsed += PLAIN_PAUSE;
        assert!(!progress.is_worth_a_line(&now), "no news");
        now.shipped += 1;
        assert!(progress.is_worth_a_line(&now));
        now.elapsed -= Duration::from_millis(1);
        assert!(!progress.is_worth_a_line(&now), "too soon");
        assert!(!plain(&now).contains('\u{1b}'));
    }
}
