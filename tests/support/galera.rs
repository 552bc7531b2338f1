//! A private Galera cluster: two MariaDB servers, both of which take writes.

use std::path::Path;

use sqlx::mysql::MySqlConnectOptions;

use crate::mariadb::MariadbServer;
use crate::ports::free_ports;

/// Where Debian's package galera-4 has it, and where other systems do.
const PROVIDERS: [&str; 3] =
    ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so"];

/// Two servers. What one commits the other one applies a moment later.
pub struct GaleraCluster {
    pub nodes: [MariadbServer; 2],
}

impl GaleraCluster {
    /// Starts both with these settings besides.
    pub fn with(settings: &[&str]) -> GaleraCluster {
        let [a, b, c, d, e, f] = free_ports();
        let node = |ports, members: &str| {
            let own = node_settings(ports, members);
            let all: Vec<&str> = own.iter().map(String::as_str).chain(settings.iter().copied()).collect();
            MariadbServer::with(&all)
        };
        // The second one copies the first one's data before it answers.
        GaleraCluster { nodes: [node([a, b, c], ""), node([d, e, f], &format!("127.0.0.1:{a}"))] }
    }

    /// A new, empty database, as each node has it.
    pub async fn database(&self) -> [MySqlConnectOptions; 2] {
        let first = self.nodes[0].database().await;
        let second = self.nodes[1].on(first.get_database().expect("it has a name"));
        [first, second]
    }
}

/// The nodes speak TCP with each other: for the group, for what a node has missed, and for a
/// copy of everything. On a busy machine neither takes the other for dead.
fn node_settings([group, missed, copy]: [u16; 3], members: &str) -> Vec<String> {
    let provider = PROVIDERS.into_iter().find(|path| Path::new(path).exists());
    let provider = provider.expect("Galera is installed: tests/run does that");
    vec![
        "wsrep-on=1".into(),
        format!("wsrep-provider={provider}"),
        format!("wsrep-cluster-address=gcomm://{members}"),
        "wsrep-node-address=127.0.0.1".into(),
        format!("wsrep-sst-receive-address=127.0.0.1:{copy}"),
        format!(
            "wsrep-provider-options=base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};\
             ist.recv_addr=127.0.0.1:{missed};gcache.size=16M;\
             evs.suspect_timeout=PT30S;evs.inactive_timeout=PT1M"
        ),
        "binlog-format=ROW".into(),
        "innodb-autoinc-lock-mode=2".into(),
    ]
}
