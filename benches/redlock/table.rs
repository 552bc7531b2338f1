use std::collections::BTreeMap;
use std::time::Duration;

/// Collects figures and prints them, row by row.
pub struct Table {
    json: bool,
    row: String,
}

const COLUMNS: [&str; 5] = ["bare", "scripts", "rslock", "fencing", "serve"];

impl Table {
    pub fn new(json: bool) -> Table {
        if !json {
            print!("{:<14}{:<48}", "row", "figure");
            COLUMNS.iter().for_each(|name| print!("{name:>12}"));
            println!("{:>12}{:>12}", "to scripts", "to rslock");
        }
        Table { json, row: String::new() }
    }

    pub fn begin(&mut self, row: &str) {
        row.clone_into(&mut self.row);
    }

    /// Prints one figure of each contestant, with the ratios of the last to the others.
    pub fn figure(&mut self, figure: &str, unit: &str, of: &[(&'static str, f64)]) {
        let of: BTreeMap<_, _> = of.iter().copied().collect();
        let ratio = |to: &str| Some(of.get("fencing")? / of.get(to)?).filter(|r| r.is_finite());
        if self.json {
            let line = serde_json::json!({
                "row": self.row, "figure": figure, "unit": unit, "values": of,
                "to_bare": ratio("bare"), "to_scripts": ratio("scripts"), "to_rslock": ratio("rslock"),
            });
            return println!("{line}");
        }
        print!("{:<14}{:<48}", self.row, format!("{figure}, {unit}"));
        for name in COLUMNS {
            print!("{:>12}", of.get(name).map_or("-".into(), |value| text(*value)));
        }
        let ratio = |to| ratio(to).map_or("-".into(), |ratio| format!("{ratio:.2}"));
        println!("{:>12}{:>12}", ratio("scripts"), ratio("rslock"));
    }

    /// Prints a figure that only this crate has.
    pub fn own(&mut self, figure: &str, unit: &str, value: f64) {
        self.figure(figure, unit, &[("fencing", value)]);
    }

    /// Prints the median and the 99th percentile of each contestant's times.
    pub fn times(&mut self, times: &mut [(&'static str, Vec<Duration>)]) {
        times.iter_mut().for_each(|(_, times)| times.sort_unstable());
        for (figure, share) in [("p50", 0.5), ("p99", 0.99)] {
            let of = |(name, times): &(&'static str, Vec<Duration>)| (*name, micros(times, share));
            let of: Vec<_> = times.iter().map(of).collect();
            self.figure(&format!("acquire + release {figure}"), "us", &of);
        }
    }
}

fn text(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

pub fn micros(sorted: &[Duration], share: f64) -> f64 {
    let place = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
