//! Tables in the form that Nova's tools print, which scripts cut into columns.

use std::fmt::Write as _;

/// Where a cell's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Align {
    Left,
    Centre,
}

/// A table with a frame of `+`, `-` and `|`. A cell may have several lines.
#[derive(Debug)]
pub(in crate::commands) struct PrettyTable {
    align: Align,
    /// Whether a rule follows each row.
    rules: bool,
    rows: Vec<Vec<String>>,
}

impl PrettyTable {
    pub(in crate::commands) fn new(align: Align, head: &[&str]) -> Self {
        Self { align, rules: false, rows: vec![head.iter().map(|name| (*name).to_owned()).collect()] }
    }

    pub(in crate::commands) fn with_rules(mut self) -> Self {
        self.rules = true;
        self
    }

    pub(in crate::commands) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// A table with one line for each pair of key and value, in the given order.
    pub(in crate::commands) fn of_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let mut table = Self::new(Align::Left, &["Property", "Value"]);
        for (key, value) in pairs {
            table.row(vec![key.to_owned(), value]);
        }
        table
    }

    pub(in crate::commands) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let rule: String =
            widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).chain(["+\n".to_owned()]).collect();
        let mut text = rule.clone();
        for (number, row) in self.rows.iter().enumerate() {
            self.write_row(row, &widths, &mut text);
            if number == 0 || self.rules || number + 1 == self.rows.len() {
                text.push_str(&rule);
            }
        }
        // A table without rows ends with a second rule, as Nova's do.
        if self.rows.len() == 1 {
            text.push_str(&rule);
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.flat_map(|cell| cell.lines()).map(|line| line.chars().count()).max().unwrap_or(0)
    }

    fn write_row(&self, row: &[String], widths: &[usize], text: &mut String) {
        let height = row.iter().map(|cell| cell.lines().count()).max().unwrap_or(1).max(1);
        for line in 0..height {
            for (cell, width) in row.iter().zip(widths) {
                let _ = write!(text, "| {} ", placed(cell.lines().nth(line).unwrap_or_default(), *width, self.align));
            }
            text.push_str("|\n");
        }
    }
}

/// Pads a text to the width. A centred text with an odd number of blanks cannot have as many on both sides. The odd
/// blank goes before a text of even length, and after a text of odd length.
fn placed(text: &str, width: usize, align: Align) -> String {
    let length = text.chars().count();
    let rest = width.saturating_sub(length);
    let before = match align {
        Align::Left => 0,
        Align::Centre if rest % 2 == 1 && length.is_multiple_of(2) => rest / 2 + 1,
        Align::Centre => rest / 2,
    };
    format!("{}{text}{}", " ".repeat(before), " ".repeat(rest - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_look_as_novas_tools_print_them() {
        let mut table = PrettyTable::new(Align::Centre, &["Name", "Disabled"]);
        table.row(vec!["cell0".into(), "False".into()]);
        table.row(vec!["cell10".into(), "True".into()]);
        let lines =
            ["+--------+----------+", "|  Name  | Disabled |", "+--------+----------+", "| cell0  |  False   |"];
        let text = table.render();
        assert!(text.starts_with(&lines.join("\n")), "{text}");
        assert!(text.ends_with("| cell10 |   True   |\n+--------+----------+\n"), "{text}");
    }

    #[test]
    fn a_cell_of_several_lines_makes_its_row_higher() {
        let mut table = PrettyTable::new(Align::Left, &["Check"]).with_rules();
        table.row(vec!["one\ntwo lines".into()]);
        table.row(vec!["three".into()]);
        let text = "+-----------+\n| Check     |\n+-----------+\n| one       |\n| two lines |\n+-----------+\n\
                    | three     |\n+-----------+\n";
        assert_eq!(table.render(), text);
    }
}
