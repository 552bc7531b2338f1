use clap::ValueEnum;

/// What is done to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    /// SIGSTOP of a client, for up to four TTLs
    StopClient,
    /// SIGSTOP of the storage service
    StopStorage,
    /// SIGSTOP of a node
    StopNode,
    /// SIGSTOP of a majority of the nodes
    StopMajority,
    /// CLIENT PAUSE ... WRITE on a node
    PauseWrites,
    /// SCRIPT FLUSH, twenty times, on every node
    FlushScripts,
    /// kill -9 of a node, and a restart with what its persistence kept
    Kill,
    /// The same, with the tail of the append-only file cut off in between
    Truncate,
    /// FLUSHALL on a node, now and then again while it is being re-admitted
    Flushall,
    /// FLUSHDB, in the same way
    Flushdb,
    /// UNLINK of the node's memory, in the same way
    Unlink,
    /// Memory pressure on a node under one of the policies that evict, or under noeviction
    Evict,
    /// The fleet is moved to another list of three, five or seven nodes, the mover killed half-way now and then
    Move,
    /// A node's clock jumps, seconds or an hour, either way
    Clock,
    /// SIGSTOP of the leader of etcd or ZooKeeper, also for longer than leases last
    StopLeader,
    /// Another member of etcd or ZooKeeper leads
    MoveLeader,
    /// etcd or ZooKeeper is restored from a backup, and its tokens are raised
    Restore,
    /// The network loses what is sent to a node
    LoseRequests,
    /// The network loses what a node answers
    LoseReplies,
    /// What is sent to and from a node is late
    Delay,
    /// Connections to a node are cut after a request was sent
    Cut,
    /// Requests to a node arrive twice
    Repeat,
}

impl Fault {
    /// Is done to a server, and not to a client, the storage, or the network.
    pub fn is_to_servers(self) -> bool {
        !self.is_to_the_network() && !matches!(self, Fault::StopClient | Fault::StopStorage)
    }

    /// Can be done to Redis nodes, or to etcd and ZooKeeper.
    pub fn is_of(self, engine: bool) -> bool {
        use Fault::{Kill, MoveLeader, Repeat, Restore, StopLeader, StopMajority, StopNode};
        match self {
            StopLeader | MoveLeader | Restore => engine,
            Kill | StopMajority | StopNode => true,
            Repeat => !engine,
            _ => !engine || !self.is_to_servers(),
        }
    }

    /// A node has forgotten something after it.
    pub fn forgets(self) -> bool {
        use Fault::{Evict, Flushall, Flushdb, Kill, Truncate, Unlink};
        matches!(self, Kill | Truncate | Flushall | Flushdb | Unlink | Evict)
    }

    pub fn is_to_the_network(self) -> bool {
        use Fault::{Cut, Delay, LoseReplies, LoseRequests, Repeat};
        matches!(self, LoseRequests | LoseReplies | Delay | Cut | Repeat)
    }

    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
