use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Pool;

use super::fault;
use crate::database::{Channels, Database};
use crate::lock::wait::listener::{Notice, ReleaseListener};

/// Returns the channel for releases of the resource: a hash of its name (FNV-1a), because channels have short
/// names. If two resources share one, a release of either wakes the waiters of both.
pub(super) fn channel(resource: &Resource) -> String {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = resource.as_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    format!("fencing_{hash:016x}")
}

/// Opens a connection that receives notifications of releases. The caller bounds the time.
pub(super) fn open<DB: Database>(
    pool: Pool<DB>,
) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
    async move {
        let channels = DB::listen(pool).await.map_err(|error| fault::of_statement(&error))?;
        let (tickets, orders, notices) = Default::default();
        let listener = ChannelListener { channels, tickets, orders, notices };
        Ok(Box::new(listener) as Box<dyn ReleaseListener>)
    }
    .boxed()
}

struct ChannelListener {
    channels: Box<dyn Channels>,
    /// The tickets of the waiters, by channel and resource.
    tickets: BTreeMap<String, BTreeMap<Resource, u64>>,
    orders: VecDeque<TicketOrder>,
    notices: VecDeque<Notice>,
}

/// An order to register a waiter under a ticket, or to remove it.
#[derive(Clone)]
struct TicketOrder {
    resource: Resource,
    ticket: u64,
    waits: bool,
}

impl ReleaseListener for ChannelListener {
    fn wait(&mut self, resource: &Resource, ticket: u64, _: Duration) {
        self.orders.push_back(TicketOrder { resource: resource.clone(), ticket, waits: true });
    }

    fn leave(&mut self, resource: &Resource, ticket: u64) {
        self.orders.push_back(TicketOrder { resource: resource.clone(), ticket, waits: false });
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        async {
            loop {
                if let Some(notice) = self.notices.pop_front() {
                    return Ok(notice);
                }
                self.fill().await.map_err(|error| fault::of_statement(&error))?;
            }
        }
        .boxed()
    }
}

impl ChannelListener {
    /// Carries out the next order, or waits for the next notification. Dropped, it does it again.
    async fn fill(&mut self) -> sqlx::Result<()> {
        let Some(TicketOrder { resource, ticket, waits }) = self.orders.front().cloned() else {
            let channel = self.channels.notified().await?;
            let waiting = self.tickets.get(&channel).into_iter().flatten();
            self.notices.extend(waiting.map(|(it, ticket)| Notice::Released(it.clone(), *ticket)));
            return Ok(());
        };
        let channel = channel(&resource);
        let mut waiting = self.tickets.get(&channel).cloned().unwrap_or_default();
        let (before, known) = (waiting.len(), waiting.get(&resource).copied());
        if waits {
            waiting.insert(resource.clone(), ticket);
        } else if known == Some(ticket) {
            waiting.remove(&resource);
        }
        if (before == 0) != waiting.is_empty() {
            self.channels.listen(&channel, before == 0).await?;
        }
        self.orders.pop_front();
        if waiting.is_empty() {
            self.tickets.remove(&channel);
        } else {
            self.tickets.insert(channel, waiting);
        }
        // It may have been released before it was registered here.
        let free = known != Some(ticket);
        let registered = Notice::Registered(resource, ticket, free);
        self.notices.push_back(if waits { registered } else { Notice::Left });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_stays_what_it_was() {
        // Processes of other versions notify each other.
        let of = |name| channel(&Resource::new(name).unwrap());
        assert_eq!(of("a"), "fencing_af63dc4c8601ec8c");
        assert_eq!(of("foobar"), "fencing_85944171f73967e8");
    }
}
