use std::fmt;
use std::process::Command;
use std::sync::OnceLock;

use super::History;

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.how)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Report {
    pub seed: u64,
    pub attempts: u64,
    pub leases: u64,
    /// Of these leases, parts in a lock that others may share.
    pub shared: u64,
    /// Of these parts, those with the token of another part: they joined it, or were joined.
    pub joined: u64,
    /// Calls that were granted several resources.
    pub several: u64,
    pub writes: u64,
    pub accepted: u64,
    pub in_doubt: u64,
    /// Writes that came to a storage after a larger token, as far as can be told: refused, accepted, or of unknown end.
    pub stale: u64,
    pub stale_refused: u64,
    pub stale_accepted: u64,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn new(seed: u64, history: &History) -> Report {
        super::check::report(seed, history)
    }

    pub fn violates(&self, invariant: Invariant) -> bool {
        self.violations.iter().any(|violation| violation.invariant == invariant)
    }

    pub fn add(&mut self, other: &Report) {
        self.attempts += other.attempts;
        self.leases += other.leases;
        self.shared += other.shared;
        self.joined += other.joined;
        self.several += other.several;
        self.writes += other.writes;
        self.accepted += other.accepted;
        self.in_doubt += other.in_doubt;
        self.stale += other.stale;
        self.stale_refused += other.stale_refused;
        self.stale_accepted += other.stale_accepted;
        self.violations.extend(other.violations.iter().cloned());
    }

    /// Writes the figures, each line with its largest first.
    pub fn write_figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { attempts, leases, shared, joined, several, .. } = self;
        let Report { writes, accepted, in_doubt, stale, stale_refused, stale_accepted, .. } = self;
        writeln!(f, "{attempts:>10} attempts, {leases} leases")?;
        writeln!(
            f,
            "{shared:>10} of the leases shared, {joined} of them with another; {several} calls granted several"
        )?;
        writeln!(f, "{writes:>10} writes, {accepted} accepted, {in_doubt} in doubt")?;
        writeln!(f, "{stale:>10} stale writes attempted, {stale_refused} refused, {stale_accepted} accepted")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, commit {}", self.seed, commit())?;
        self.write_figures(f)?;
        write!(f, "{:>10} violations", self.violations.len())?;
        self.violations.iter().take(20).try_for_each(|violation| write!(f, "\n{violation}"))
    }
}

/// The commit that was checked out when this was first asked, as far as git knows.
pub fn commit() -> &'static str {
    static COMMIT: OnceLock<String> = OnceLock::new();
    COMMIT.get_or_init(|| {
        let folder = env!("CARGO_MANIFEST_DIR");
        let arguments = ["-C", folder, "describe", "--always", "--dirty", "--abbrev=12"];
        let output = Command::new("git").args(arguments).output();
        let text = output.ok().filter(|output| output.status.success());
        let text = text.and_then(|output| String::from_utf8(output.stdout).ok());
        text.map_or_else(|| "unknown".into(), |text| text.trim().to_owned())
    })
}
