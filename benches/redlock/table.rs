use std::collections::BTreeMap;
use std::time::Duration;

use crate::rounds::median;

/// Collects figures and prints them, row by row.
pub struct Table {
    row: String,
}

const COLUMNS: [&str; 5] = ["bare", "scripts", "rslock", "fencing", "serve"];

impl Table {
    pub fn new() -> Table {
        print!("{:<14}{:<48}", "row", "figure");
        COLUMNS.iter().for_each(|name| print!("{name:>12}"));
        println!("{:>12}{:>12}", "to scripts", "to rslock");
        Table { row: String::new() }
    }

    pub fn begin(&mut self, row: &str) {
        row.clone_into(&mut self.row);
    }

    /// Prints one figure of each contestant, with the ratios of the last to the others.
    pub fn figure(&mut self, figure: &str, unit: &str, of: &[(&'static str, f64)]) {
        let of: BTreeMap<_, _> = of.iter().copied().collect();
        let ratio = |to: &str| Some(of.get("fencing")? / of.get(to)?).filter(|r| r.is_finite());
        print!("{:<14}{:<48}", self.row, format!("{figure}, {unit}"));
        for name in COLUMNS {
            print!("{:>12}", of.get(name).map_or("-".into(), |value| text(*value)));
        }
        let ratio = |to| ratio(to).map_or("-".into(), |ratio| format!("{ratio:.2}"));
        println!("{:>12}{:>12}", ratio("scripts"), ratio("rslock"));
    }
}

fn text(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The median in microseconds.
pub fn p50(times: &[Duration]) -> f64 {
    median(times.iter().map(|time| time.as_secs_f64() * 1e6))
}
