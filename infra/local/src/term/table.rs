//! Tables: small, aligned by the columns that characters take, cut to the terminal, plain where there is none.
//!
//! Invariant: cells are escaped when they are made, so no table can carry a terminal's control sequences but our own
//! colours, and those only onto a terminal.

use super::text::{cut, cut_middle, escape, escape_lines, width};
use std::env;
use std::io::{IsTerminal as _, stdout};

/// What stands between two columns.
const GAP: usize = 2;
/// To what width a column is cut at most, however narrow the terminal is.
const NARROW: usize = 6;

/// How to show things on what stdout is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// The terminal's columns; without one nothing is cut.
    pub columns: Option<usize>,
    /// Whether colours are welcome.
    pub colour: bool,
}

impl Look {
    /// As stdout wants it: plain unless it is a terminal, and without colours when `NO_COLOR` is set.
    pub fn of_stdout() -> Look {
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        if !stdout().is_terminal() {
            return Look::default();
        }
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Look {
            columns: terminal_size::terminal_size().map(|(terminal_size::Width(columns), _)| columns.into()),
            colour: !set("NO_COLOR") && !dumb,
        }
    }

    fn paint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            _ if !self.colour => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Head => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Open => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// What a cell says by its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    #[default]
    Plain,
    /// A heading.
    Head,
    /// All is well.
    Good,
    /// It is not.
    Bad,
    /// Not decided yet.
    Open,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with this text, escaped.
    pub fn new(text: impl AsRef<str>) -> Cell {
        Cell {
            text: escape(text.as_ref()),
            tone: Tone::Plain,
        }
    }

    /// The status of an instance, in its colour.
    pub fn status(status: &str) -> Cell {
        let tone = match status {
            "Completed" => Tone::Good,
            "Failed" => Tone::Bad,
            _ => Tone::Open,
        };
        Cell::new(status).toned(tone)
    }

    /// The same in another tone.
    pub fn toned(mut self, tone: Tone) -> Cell {
        self.tone = tone;
        self
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::new(text)
    }
}

/// A column's heading and ways.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    heading: &'static str,
    right: bool,
    middle: bool,
    spare: bool,
}

/// A column of texts.
pub const fn left(heading: &'static str) -> Column {
    Column {
        heading,
        right: false,
        middle: false,
        spare: false,
    }
}

/// A column of numbers.
pub const fn right(heading: &'static str) -> Column {
    Column {
        right: true,
        ..left(heading)
    }
}

/// A column of ids, which are cut in the middle.
pub const fn ids(heading: &'static str) -> Column {
    Column {
        middle: true,
        ..left(heading)
    }
}

impl Column {
    /// The same, left out of a terminal that is too narrow for all.
    pub const fn spare(self) -> Column {
        Column { spare: true, ..self }
    }
}

/// A table with a heading for each column.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl Into<Vec<Column>>) -> Table {
        Table {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// The table as lines, each with its end.
    pub fn render(&self, look: Look) -> String {
        let headings: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell::new(column.heading).toned(Tone::Head))
            .collect();
        let mut widths = vec![0; self.columns.len()];
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(&cell.text));
            }
        }
        let mut shown = vec![true; self.columns.len()];
        if let Some(columns) = look.columns {
            self.spare(&widths, &mut shown, columns);
            for (wide, _) in widths.iter_mut().zip(&shown).filter(|(_, shown)| !**shown) {
                *wide = 0;
            }
            shrink(&mut widths, columns.saturating_sub(gaps(&shown)));
        }
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            out.push_str(&self.line(row, &widths, &shown, look));
            out.push('\n');
        }
        out
    }

    /// Leaves out what can be spared, from the right, until the line fits.
    fn spare(&self, widths: &[usize], shown: &mut [bool], columns: usize) {
        for index in (0..widths.len()).rev().filter(|index| self.columns[*index].spare) {
            let taken = widths.iter().zip(&*shown).filter(|(_, shown)| **shown);
            if taken.map(|(wide, _)| wide).sum::<usize>() + gaps(shown) <= columns {
                return;
            }
            shown[index] = false;
        }
    }

    fn line(&self, row: &[Cell], widths: &[usize], shown: &[bool], look: Look) -> String {
        let mut line = String::new();
        let mut owed = 0;
        let cells = row.iter().zip(&self.columns).zip(widths).zip(shown);
        for ((cell, column), wide) in cells.filter(|(_, shown)| **shown).map(|(cell, _)| cell) {
            let text = match column.middle {
                true => cut_middle(&cell.text, *wide),
                false => cut(&cell.text, *wide),
            };
            let room = wide.saturating_sub(width(&text));
            let before = if column.right { room } else { 0 };
            if !text.is_empty() {
                line.push_str(&" ".repeat(owed + before));
                line.push_str(&look.paint(&text, cell.tone));
                owed = 0;
            } else {
                owed += before;
            }
            // Spaces are written when something follows them, so that no line ends with any.
            owed += room - before + GAP;
        }
        line
    }
}

/// What stands between the columns that are shown.
fn gaps(shown: &[bool]) -> usize {
    GAP * shown.iter().filter(|shown| **shown).count().saturating_sub(1)
}

/// Takes from the widest columns until they fit.
fn shrink(widths: &mut [usize], columns: usize) {
    while widths.iter().sum::<usize>() > columns {
        let over = widths.iter().sum::<usize>() - columns;
        let second = second_largest(widths);
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROW) else {
            return;
        };
        // At once down to the next widest, then in turns.
        let step = over.min((*widest - second).max(1));
        *widest = (*widest - step).max(NARROW);
    }
}

fn second_largest(widths: &[usize]) -> usize {
    let mut sorted = widths.to_vec();
    sorted.sort_unstable();
    sorted.iter().rev().nth(1).copied().unwrap_or(0)
}

/// A list of labels and what they are about; a value of several lines stands beneath each other.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    fields: Vec<(&'static str, String, Tone)>,
}

impl Fields {
    /// Adds a field.
    pub fn add(&mut self, label: &'static str, value: impl AsRef<str>) {
        self.toned(label, value, Tone::Plain);
    }

    /// Adds a field, if there is a value.
    pub fn maybe(&mut self, label: &'static str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.add(label, value);
        }
    }

    /// Adds a field in a tone.
    pub fn toned(&mut self, label: &'static str, value: impl AsRef<str>, tone: Tone) {
        self.fields.push((label, escape_lines(value.as_ref()), tone));
    }

    /// Adds the status of an instance.
    pub fn status(&mut self, status: &str) {
        self.toned("status", status, Cell::status(status).tone);
    }

    /// The list as lines, each with its end.
    pub fn render(&self, look: Look) -> String {
        let wide = self.fields.iter().map(|(label, ..)| width(label)).max().unwrap_or(0) + GAP;
        let mut out = String::new();
        for (label, value, tone) in &self.fields {
            let mut label = format!("{label:wide$}");
            for line in value.split('\n') {
                let text = format!("{label}{}", look.paint(line, *tone));
                out.push_str(text.trim_end());
                out.push('\n');
                label = " ".repeat(wide);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([left("INSTANCE"), right("N"), left("STATUS"), left("NOTE")]);
        table.row([Cell::new("京都"), "7".into(), Cell::status("Completed"), "".into()]);
        table.row([
            Cell::new("a\u{1b}[31m\nb"),
            "1234".into(),
            Cell::status("Failed"),
            "why not".into(),
        ]);
        table
    }

    #[test]
    fn columns_align_by_what_characters_take_and_lines_end_where_their_text_does() {
        let expected = "\
INSTANCE           N  STATUS     NOTE
京都               7  Completed
a\\u{1b}[31m\\nb  1234  Failed     why not
";
        assert_eq!(sample().render(Look::default()), expected);
    }

    #[test]
    fn the_widest_columns_give_way_to_a_narrow_terminal() {
        let mut table = Table::new([left("INSTANCE"), left("STATUS"), left("CUSTOM")]);
        table.row([Cell::new("i".repeat(300)), "Running".into(), "c".repeat(40).into()]);
        let look = Look {
            columns: Some(60),
            colour: false,
        };
        let shown = table.render(look);
        assert!(shown.lines().all(|line| width(line) <= 60), "{shown}");
        assert!(shown.contains("Running") && shown.contains("iiiiii…  "), "{shown}");
        let tiny = Look {
            columns: Some(1),
            colour: false,
        };
        assert!(table.render(tiny).contains("iiiii…"), "a column stays readable");
    }

    #[test]
    fn what_can_be_spared_is_left_out_before_anything_is_cut() {
        let mut table = Table::new([
            ids("INSTANCE"),
            left("VERSION").spare(),
            left("CREATED").spare(),
            right("AGE"),
        ]);
        table.row([
            "order-1234".into(),
            "1.0.0".into(),
            "2026-11-16".into(),
            Cell::new("5 s"),
        ]);
        let shown = |columns| {
            let look = Look {
                columns: Some(columns),
                colour: false,
            };
            table.render(look).lines().last().unwrap().to_owned()
        };
        assert_eq!(shown(36), "order-1234  1.0.0    2026-11-16  5 s");
        assert_eq!(shown(35), "order-1234  1.0.0    5 s");
        assert_eq!(shown(20), "order-1234  5 s");
        assert_eq!(shown(13), "orde…234  5 s");
    }

    #[test]
    fn colours_are_ours_alone_and_only_on_a_terminal() {
        let look = Look {
            columns: None,
            colour: true,
        };
        let shown = sample().render(look);
        assert!(shown.contains("\u{1b}[32mCompleted\u{1b}[0m") && shown.contains("\u{1b}[31mFailed\u{1b}[0m"));
        assert!(shown.contains("a\\u{1b}[31m\\nb"), "{shown}");
        assert!(!sample().render(Look::default()).contains('\u{1b}'));
    }

    #[test]
    fn fields_stand_beneath_each_other() {
        let mut fields = Fields::default();
        fields.add("instance", "a\u{7}");
        fields.maybe("parent", None::<&str>);
        fields.add("output", "{\n  \"x\": 1\n}");
        let expected = "instance  a\\u{7}\noutput    {\n            \"x\": 1\n          }\n";
        assert_eq!(fields.render(Look::default()), expected);
    }
}
