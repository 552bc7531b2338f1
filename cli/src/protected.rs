//! What `fencing protect --check` prints of a table.

use fencing::sql::{Protected, Refused};
use serde_json::{Value, json};

use crate::say;

/// Lists what would have been refused at this table.
fn at<'a>(table: &Protected, refusals: &'a [Refused]) -> impl Iterator<Item = &'a Refused> {
    let (table, shadow) = (table.table.clone(), table.shadow);
    refusals.iter().filter(move |refused| {
        let place = refused.place.replace('"', "");
        let name = place.split_once('.').map_or(place.as_str(), |(_, name)| name);
        shadow && (place == table || name == table)
    })
}

pub(crate) fn described(table: &Protected, refusals: &[Refused]) -> Value {
    let refusal = |refused: &Refused| {
        json!({
            "resource": refused.resource,
            "cause": refused.cause,
            "writer": refused.writer,
            "message": refused.message,
            "first_at": refused.first_at,
        })
    };
    json!({
        "table": table.table,
        "resource": table.resource,
        "whole": table.is_whole(),
        "protected": table.is_protected(),
        "shadow": table.shadow,
        "would_refuse": at(table, refusals).map(refusal).collect::<Vec<_>>(),
        "faults": table.faults,
        "unseen": table.unseen,
    })
}

/// Prints one line, and below it what is wrong and what gets past.
pub(crate) fn print(table: &Protected, refusals: &[Refused]) {
    let state = match (table.faults.is_empty(), table.shadow) {
        (false, _) => "broken",
        (true, true) => "shadow",
        (true, false) => "whole",
    };
    say::out(format_args!("{state}\t{}\t{}\n", table.table, table.resource));
    for fault in &table.faults {
        say::out(format_args!("\tfault: {fault}\n"));
    }
    for Refused { cause, first_at, writer, message, .. } in at(table, refusals) {
        say::out(format_args!(
            "\twould refuse: {cause}, first at {first_at} by {writer}: {message}\n"
        ));
    }
    for unseen in &table.unseen {
        say::out(format_args!("\tdoes not see: {unseen}\n"));
    }
}
