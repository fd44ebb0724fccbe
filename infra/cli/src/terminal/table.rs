//! Tables and lists of fields: aligned, cut to the width of a terminal, plain and complete in a pipe.
//!
//! Invariant: cells are escaped when they are made, so no data can carry control sequences of a terminal.

use super::text::{escape, escape_lines};
use comfy_table::{Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Width, presets};
use console::Term;

/// The space between two columns.
const GAP: u16 = 2;
/// A column is not cut below these widths, however narrow the terminal is. Ids are for copying and differ at their end.
const LEAST: u16 = 6;
const LEAST_ID: u16 = 36;

/// What the output supports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    /// The width of the terminal; `None` in a pipe, where nothing is cut.
    pub(crate) columns: Option<u16>,
    /// Whether colours may be used.
    pub(crate) colour: bool,
}

impl Look {
    /// The look of stdout: plain unless it is a terminal, and without colours if `NO_COLOR` is set.
    pub(crate) fn of_stdout() -> Look {
        let stdout = Term::stdout();
        Look {
            columns: stdout.size_checked().map(|(_, columns)| columns),
            colour: stdout.features().colors_supported(),
        }
    }

    fn table(self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_truncation_indicator("…");
        match self.colour {
            true => table.enforce_styling(),
            false => table.force_no_tty(),
        };
        table
    }
}

/// One cell, escaped.
#[derive(Clone, Debug)]
pub(crate) struct Cell(comfy_table::Cell);

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell(comfy_table::Cell::new(escape(text.as_ref())))
    }
}

impl Cell {
    pub(crate) fn coloured(self, colour: Color) -> Cell {
        Cell(self.0.fg(colour))
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    heading: &'static str,
    alignment: CellAlignment,
    least: u16,
    optional: bool,
}

/// A column of text.
pub(crate) const fn left(heading: &'static str) -> Column {
    Column {
        heading,
        alignment: CellAlignment::Left,
        least: LEAST,
        optional: false,
    }
}

/// A column of numbers.
pub(crate) const fn right(heading: &'static str) -> Column {
    Column {
        alignment: CellAlignment::Right,
        ..left(heading)
    }
}

/// A column of ids.
pub(crate) const fn ids(heading: &'static str) -> Column {
    Column {
        least: LEAST_ID,
        ..left(heading)
    }
}

impl Column {
    /// Hidden if the terminal is too narrow for all columns.
    pub(crate) const fn optional(self) -> Column {
        Column { optional: true, ..self }
    }
}

/// A table with a heading for each column.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Table {
        Table {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    pub(crate) fn render(self, look: Look) -> String {
        let mut table = look.table();
        let headings = self.columns.iter().map(|column| comfy_table::Cell::new(column.heading));
        table.set_header(one_line(headings.map(|heading| heading.add_attribute(Attribute::Bold))));
        for cells in self.rows {
            table.add_row(one_line(cells.into_iter().map(|cell| cell.0)));
        }
        for (drawn, column) in table.column_iter_mut().zip(&self.columns) {
            drawn.set_padding((0, GAP));
            drawn.set_cell_alignment(column.alignment);
        }
        if let Some(width) = look.columns {
            fit(&mut table, &self.columns, width);
        }
        format!("{}\n", table.trim_fmt())
    }
}

/// A row that is cut instead of wrapped.
fn one_line(cells: impl Iterator<Item = comfy_table::Cell>) -> Row {
    let mut row = Row::from(cells);
    row.max_height(1);
    row
}

/// Hides optional columns from the right until the table fits; then columns are cut down to their least width.
fn fit(table: &mut comfy_table::Table, columns: &[Column], width: u16) {
    // The last column needs no gap, which is trimmed away.
    let width = width + GAP;
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    let widths: Vec<u16> = table
        .column_max_content_widths()
        .iter()
        .map(|wide| wide + GAP)
        .collect();
    let mut total: u16 = widths.iter().sum();
    for (index, drawn) in table
        .column_iter_mut()
        .enumerate()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        if columns[index].optional && total > width {
            total -= widths[index];
            drawn.set_constraint(ColumnConstraint::Hidden);
        } else {
            let least = widths[index].min(columns[index].least + GAP);
            drawn.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
}

/// Labels with values. The lines of a value stand beneath each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<[comfy_table::Cell; 2]>);

impl Fields {
    pub(crate) fn add(&mut self, label: &'static str, value: impl AsRef<str>) {
        self.0.push(field(label, value.as_ref()));
    }

    /// Adds a field if there is a value.
    pub(crate) fn maybe(&mut self, label: &'static str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.add(label, value);
        }
    }

    pub(crate) fn coloured(&mut self, label: &'static str, value: impl AsRef<str>, colour: Color) {
        let [label, value] = field(label, value.as_ref());
        self.0.push([label, value.fg(colour)]);
    }

    pub(crate) fn render(self, look: Look) -> String {
        let mut table = look.table();
        table
            .set_content_arrangement(ContentArrangement::Disabled)
            .add_rows(self.0);
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        format!("{}\n", table.trim_fmt())
    }
}

fn field(label: &'static str, value: &str) -> [comfy_table::Cell; 2] {
    [
        comfy_table::Cell::new(label),
        comfy_table::Cell::new(escape_lines(value)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::measure_text_width;

    fn sample() -> Table {
        let mut table = Table::new([left("INSTANCE"), right("N"), left("STATUS"), left("NOTE")]);
        table.row([
            "京都".into(),
            "7".into(),
            Cell::from("Completed").coloured(Color::Green),
            "".into(),
        ]);
        table.row([
            "a\u{1b}[31m\nb".into(),
            "1234".into(),
            Cell::from("Failed").coloured(Color::Red),
            "why not".into(),
        ]);
        table
    }

    fn narrow(columns: u16) -> Look {
        Look {
            columns: Some(columns),
            colour: false,
        }
    }

    #[test]
    fn columns_align_by_the_width_of_characters_and_lines_have_no_trailing_spaces() {
        let expected = "\
INSTANCE           N  STATUS     NOTE
京都               7  Completed
a\\u{1b}[31m\\nb  1234  Failed     why not
";
        assert_eq!(sample().render(Look::default()), expected);
    }

    #[test]
    fn long_cells_are_cut_to_the_terminal() {
        let mut table = Table::new([left("INSTANCE"), left("STATUS"), left("CUSTOM")]);
        table.row(["i".repeat(300).into(), "Running".into(), "c".repeat(40).into()]);
        let shown = table.clone().render(narrow(60));
        assert!(shown.lines().all(|line| measure_text_width(line) <= 60), "{shown}");
        assert!(shown.contains("Running") && shown.contains("iiiiii…  "), "{shown}");
        assert_eq!(shown.lines().count(), 2, "nothing is wrapped: {shown}");
        assert!(table.render(narrow(1)).contains("iiiii…"), "a column stays readable");
    }

    #[test]
    fn optional_columns_are_hidden_before_anything_is_cut() {
        let columns = [
            ids("INSTANCE"),
            left("VERSION").optional(),
            left("CREATED").optional(),
            left("NOTE"),
        ];
        let mut table = Table::new(columns);
        table.row([
            "order-1234".into(),
            "1.0.0".into(),
            "2026-11-16".into(),
            Cell::from("a note"),
        ]);
        let shown = |columns| table.clone().render(narrow(columns)).lines().last().unwrap().to_owned();
        assert_eq!(shown(39), "order-1234  1.0.0    2026-11-16  a note");
        assert_eq!(shown(38), "order-1234  1.0.0    a note");
        assert_eq!(shown(20), "order-1234  a note");
        assert_eq!(shown(17), "order-1234  a note", "ids are cut last");
    }

    #[test]
    fn only_our_own_colours_are_used_and_only_on_a_terminal() {
        let look = Look {
            columns: None,
            colour: true,
        };
        let shown = sample().render(look);
        for part in ["\u{1b}[38;5;10mCompleted", "\u{1b}[38;5;9mFailed", "a\\u{1b}[31m\\nb"] {
            assert!(shown.contains(part), "{part:?}: {shown:?}");
        }
        assert!(!sample().render(Look::default()).contains('\u{1b}'));
    }

    #[test]
    fn lines_of_a_field_stand_beneath_each_other() {
        let mut fields = Fields::default();
        fields.add("instance", "a\u{7}");
        fields.maybe("parent", None::<&str>);
        fields.add("output", "{\n  \"x\": 1\n}");
        let expected = "instance  a\\u{7}\noutput    {\n            \"x\": 1\n          }\n";
        assert_eq!(fields.render(Look::default()), expected);
    }
}
