use std::time::Duration;

use ::redis::{Value, from_redis_value};
use fencing_protocol::{CROWDED, Fault, Fleet};

use super::fault::{invalid, unfit};
use super::node::{RedisNode, connect, info, query};
use crate::lock::redlock::node::within;
use crate::server_info::{ServerInfo, shorten};

const STATUS: &str = concat!(include_str!("common.lua"), include_str!("status.lua"));

/// The state of a node, for an operator: also all that its server says of itself.
#[derive(Debug, derive_more::Deref, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node, as an operator knows it; without password.
    pub node: String,
    /// What its server says of itself.
    #[deref]
    pub server: ServerInfo,
    /// The time since 1970 by its clock, in seconds. `None` if it is a replica, or loading.
    pub clock: Option<Duration>,
    /// The `run_id` under which it was admitted: an older one after a restart, none if it never was or has forgotten.
    pub admitted_as: Option<String>,
    /// The names of the nodes of the fleet that it was admitted in, in that life; empty if it was in none.
    pub fleet: Vec<String>,
    /// The names of the nodes of the fleet for which it has left its own; empty if it has not.
    pub moved_to: Vec<String>,
    /// The era in which it counts: the high nine digits of its tokens.
    pub era: Option<u64>,
    /// The rest of its quarantine.
    pub quarantine: Option<Duration>,
    /// Longest time for which a lock granted or renewed there may still be held.
    pub longest: Duration,
    /// Number of resources with a count.
    pub counts: u64,
    /// Whether it holds 100,000 counters or more, so that clients collect them.
    pub crowded: bool,
    /// The server's error, if it takes no writes now: it is out of memory, can't save, or lacks replicas.
    pub refuses: Option<String>,
}

impl NodeReport {
    /// Reports whether it was admitted, or has left for another fleet, and has forgotten nothing since.
    #[must_use]
    pub fn remembers(&self) -> bool {
        self.admitted_as.as_deref() == Some(self.run_id.as_str())
    }

    /// Returns why it gives no vote now to a client with this list of nodes.
    #[must_use]
    pub fn problem(&self, list: &Fleet) -> Option<Fault> {
        unfit(&self.server).or_else(|| match self.quarantine {
            _ if !self.remembers() => Some(Fault::NotAdmitted),
            _ if !self.moved_to.is_empty() => match list.members().eq(&self.moved_to) {
                true => Some(Fault::NotAdmitted),
                false => Some(Fault::Moved { to: self.moved_to.clone() }),
            },
            _ if !list.members().eq(&self.fleet) => Some(Fault::OtherFleet { members: self.fleet.clone() }),
            Some(left) => Some(Fault::Quarantined(left)),
            None => self.refusal(),
        })
    }

    /// Returns why it takes no writes now, in a quarantine as well.
    #[must_use]
    pub fn refusal(&self) -> Option<Fault> {
        let text = self.refuses.as_ref()?;
        Some(if text.contains("OOM") { Fault::OutOfMemory } else { Fault::Refused(text.clone()) })
    }
}

impl RedisNode {
    /// Asks the node for its state, over a connection of its own, within `budget`.
    ///
    /// It changes nothing. It neither prepares nor admits the node.
    ///
    /// # Errors
    /// [`Fault`] if the node does not answer. Other problems are in the report.
    ///
    /// # Cancel safety
    /// If you drop the future, it leaves nothing behind.
    pub async fn inspect(&self, budget: Duration) -> Result<NodeReport, Fault> {
        within(budget, self.ask()).await
    }

    async fn ask(&self) -> Result<NodeReport, Fault> {
        let mut connection = connect(&self.client).await?;
        let server = info(&mut connection).await?;
        let mut report = NodeReport { node: self.name.clone(), server, ..NodeReport::default() };
        // A loading server answers nothing, and a replica's copy proves nothing.
        if report.master && !report.loading {
            let mut status = ::redis::cmd("EVAL");
            status.arg(self.keys.constants() + STATUS).arg(0);
            let value: Value = query(&mut connection, &status).await?;
            let odd = invalid(&format!("{value:?}"));
            read(&mut report, value).ok_or(odd)?;
        }
        Ok(report)
    }
}

fn read(report: &mut NodeReport, value: Value) -> Option<()> {
    type StatusAnswer = (Vec<Option<String>>, i64, u64, u64, u64, Option<String>);
    let (memory, left, longest, counts, clock, refuses): StatusAnswer = from_redis_value(value).ok()?;
    // Other clients may have written anything there, and a terminal shows it.
    let fits = |text: &String| text.len() <= 30_000 && !text.contains(char::is_control);
    if !memory.iter().flatten().all(fits) {
        return None;
    }
    let mut memory = memory.into_iter();
    let [admitted, era, sealed_as, sealed_to, full] = [(); 5].map(|()| memory.next().flatten());
    let names = |fleet: &str| fleet.split(',').map(str::to_owned).collect::<Vec<_>>();
    if let Some(marker) = admitted.or(sealed_as) {
        let (run_id, fleet) = marker.split_once(' ')?;
        report.admitted_as = Some(run_id.to_owned());
        report.fleet = names(fleet);
    }
    report.moved_to = sealed_to.map_or_else(Vec::new, |fleet| names(&fleet));
    report.era = era.map(|digits| digits.parse()).transpose().ok()?;
    // -2: there is none. A key without expiry was made by hand: it never ends.
    report.quarantine = match left {
        -2 => None,
        -1 => Some(Duration::MAX),
        left => Some(Duration::from_millis(u64::try_from(left).ok()?)),
    };
    report.longest = Duration::from_millis(longest);
    report.counts = counts;
    // The user may lack the right to write.
    let codes = ["OOM", "MISCONF", "NOREPLICAS", "READONLY"];
    let refuses = refuses.filter(|text| !text.contains("permission") && codes.iter().any(|code| text.contains(code)));
    report.refuses = refuses.map(shorten);
    report.clock = Some(Duration::from_secs(clock));
    report.crowded = full.is_some() || report.counts >= CROWDED as u64;
    Some(())
}
