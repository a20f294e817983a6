//! The look of a table of results: what was measured on the left, its value on the right.

use comfy_table::{CellAlignment, Table, presets};

/// A table of rows, in line-drawing characters for a terminal and in ASCII for all else.
pub fn board<'a>(rows: impl IntoIterator<Item = (&'a str, String)>, for_terminal: bool) -> Table {
    let mut table = Table::new();
    table.load_style(if for_terminal {
        presets::UTF8_FULL_CONDENSED
    } else {
        presets::ASCII_FULL_CONDENSED
    });
    for (what, value) in rows {
        table.add_row([what, &value]);
    }
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}
