//! Fields of the EU reporting scheme, told.

use crate::audit::account::Account;
use crate::audit::account::eu::FieldBasis;
use crate::report::{Cell, Column, ReportTable, Section};

pub(super) fn eu(account: &Account) -> Section {
    let known = account.eu.iter().filter(|field| field.basis != FieldBasis::Missing).count();
    let mut table = ReportTable::new(
        "Fields of Delegated Regulation (EU) 2024/1364",
        vec![
            Column::text("Symbol"),
            Column::text("Field"),
            Column::number("Value"),
            Column::text("Unit"),
            Column::text("Known from"),
            Column::text("Note"),
        ],
    );
    for field in account.eu.iter().filter(|field| field.basis != FieldBasis::Missing) {
        let value = match (&field.text, field.value) {
            (Some(text), _) => Cell::from(text.clone()),
            (None, value) => Cell::opt(value, Cell::Compact),
        };
        let basis = match field.basis {
            FieldBasis::Audited => "this audit",
            FieldBasis::Computed => "audited and stated values",
            FieldBasis::Stated => "the factor file",
            FieldBasis::Missing => "",
        };
        let text = |text: &Option<String>| Cell::from(text.clone().unwrap_or_default());
        table.rows.push(vec![
            text(&field.symbol),
            Cell::from(field.name.clone()),
            value,
            text(&field.unit),
            Cell::from(basis),
            text(&field.note),
        ]);
    }
    let missing: Vec<&str> = account
        .eu
        .iter()
        .filter(|field| field.basis == FieldBasis::Missing)
        .map(|field| field.symbol.as_deref().unwrap_or(&field.name))
        .collect();
    if !missing.is_empty() {
        table.note = Some(format!("Not known: {}. Give them under `[site]` in the factor file.", missing.join(", ")));
    }
    Section::new("eu", "Fields of the EU reporting scheme")
        .with_finding(format!("**{known}** of {} fields are known.", account.eu.len()))
        .with_table(table)
        .with_definition("Article 12 of Directive (EU) 2023/1791: data centres of 500 kW of installed IT power and more report once a year; energy here is of the audited window.")
}
