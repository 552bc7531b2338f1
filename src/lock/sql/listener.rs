use std::collections::BTreeMap;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::Pool;
use tokio::sync::{mpsc, oneshot};

use super::fault;
use crate::database::{Channels, Database};
use crate::lock::wait::listener::ReleaseListener;

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
        let (orders, receiver) = mpsc::unbounded_channel();
        let (sender, releases) = mpsc::unbounded_channel();
        tokio::spawn(serve(channels, receiver, sender));
        let listener: Box<dyn ReleaseListener> = Box::new(ChannelListener { orders, releases });
        Ok(listener)
    }
    .boxed()
}

/// The handle of the task that has the connection. The task ends when it is dropped.
struct ChannelListener {
    orders: mpsc::UnboundedSender<TicketOrder>,
    releases: mpsc::UnboundedReceiver<(Resource, u64)>,
}

/// An order to register a waiter under a ticket, or to remove it.
struct TicketOrder {
    resource: Resource,
    ticket: u64,
    waits: bool,
    done: oneshot::Sender<bool>,
}

impl ChannelListener {
    fn order(
        &self,
        resource: &Resource,
        ticket: u64,
        waits: bool,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        let (done, answer) = oneshot::channel();
        let order = TicketOrder { resource: resource.clone(), ticket, waits, done };
        let sent = self.orders.send(order);
        async move {
            let gone = || Fault::Disconnected("the listener has ended".into());
            sent.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())
        }
        .boxed()
    }
}

impl ReleaseListener for ChannelListener {
    fn wait(
        &mut self,
        resource: &Resource,
        ticket: u64,
        _: Duration,
    ) -> BoxFuture<'static, Result<bool, Fault>> {
        self.order(resource, ticket, true)
    }

    fn leave(&mut self, resource: &Resource, ticket: u64) -> BoxFuture<'static, Result<(), Fault>> {
        let left = self.order(resource, ticket, false);
        async move { left.await.map(drop) }.boxed()
    }

    fn notified(&mut self) -> BoxFuture<'_, Result<(Resource, u64), Fault>> {
        let gone = || Fault::Disconnected("the connection that listens broke".into());
        async move { self.releases.recv().await.ok_or_else(gone) }.boxed()
    }
}

/// The tickets of the waiters, by channel and resource.
type Tickets = BTreeMap<String, BTreeMap<Resource, u64>>;

async fn serve(
    mut channels: Box<dyn Channels>,
    mut orders: mpsc::UnboundedReceiver<TicketOrder>,
    releases: mpsc::UnboundedSender<(Resource, u64)>,
) {
    let mut tickets = Tickets::new();
    loop {
        let served = tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(order) => carry_out(&mut tickets, &mut *channels, order).await,
                None => return,
            },
            channel = channels.notified() => channel.map(|channel| {
                for (resource, ticket) in tickets.get(&channel).into_iter().flatten() {
                    let _ = releases.send((resource.clone(), *ticket));
                }
            }),
        };
        if let Err(error) = served {
            tracing::debug!(%error, "no notifications of releases");
            return;
        }
    }
}

/// Carries out an order. It answers that the lock may be free if the waiter was not registered before: it may
/// have been released in between.
async fn carry_out(
    tickets: &mut Tickets,
    channels: &mut dyn Channels,
    order: TicketOrder,
) -> sqlx::Result<()> {
    let channel = channel(&order.resource);
    let waiting = tickets.entry(channel.clone()).or_default();
    let (before, known) = (waiting.len(), waiting.get(&order.resource).copied());
    if order.waits {
        waiting.insert(order.resource, order.ticket);
    } else if known == Some(order.ticket) {
        waiting.remove(&order.resource);
    }
    let after = waiting.len();
    if after == 0 {
        tickets.remove(&channel);
    }
    if (before == 0) != (after == 0) {
        channels.listen(&channel, after > 0).await?;
    }
    let _ = order.done.send(order.waits && known != Some(order.ticket));
    Ok(())
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
