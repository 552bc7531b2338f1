use zookeeper_client::Acls;

/// The servers of an ensemble, and what a client needs to use them.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub(super) struct ZookeeperUrl {
    /// `a:2181,b:2181`.
    pub(super) servers: String,
    /// The node that all others are below: empty, or `/a/b`.
    pub(super) chroot: String,
    /// `user:password`.
    #[debug("{}", if user.is_some() { "user" } else { "nobody" })]
    pub(super) user: Option<String>,
}

impl ZookeeperUrl {
    /// Takes `zookeeper://[user:password@]a:2181,b:2181/chroot`.
    pub(super) fn parse(url: &str) -> Result<ZookeeperUrl, String> {
        let rest = url.strip_prefix("zookeeper://").ok_or("it must begin with zookeeper://")?;
        // A password may have any of the other characters.
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, rest),
        };
        if user.as_ref().is_some_and(|user| !user.contains(':')) {
            return Err("a user needs a password: user:password@".into());
        }
        let (servers, chroot) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let chroot = chroot.trim_end_matches('/');
        if chroot.split('/').skip(1).any(|name| matches!(name, "" | "." | "..")) {
            return Err(format!("{chroot} is not the path of a node"));
        }
        let servers: Vec<&str> = servers.split(',').map(str::trim).collect();
        if let Some(server) = servers.iter().find(|server| !is_server(server)) {
            return Err(format!("{server:?} is not a server: give host:port, as in a:2181,b:2181"));
        }
        Ok(ZookeeperUrl { servers: servers.join(","), chroot: chroot.to_owned(), user })
    }

    /// Returns who may use the nodes that this client makes.
    pub(super) fn acls(&self) -> Acls<'static> {
        if self.user.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }
}

fn is_server(server: &str) -> bool {
    let (host, port) = match server.rsplit_once(':') {
        // An address of IPv6 stands in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (server, "2181"),
    };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]%".contains(&byte);
    !host.is_empty() && host.bytes().all(fits) && port.parse().is_ok_and(|port: u16| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_a_user_and_a_node() {
        let address = ZookeeperUrl::parse("zookeeper://me:s@cret@a:2181,[::1]:2182, c/app/locks/").unwrap();
        assert_eq!(address.servers, "a:2181,[::1]:2182,c");
        assert_eq!(address.chroot, "/app/locks");
        assert_eq!(address.user.as_deref(), Some("me:s@cret"));
        assert!(!format!("{address:?}").contains("cret"));
        assert_eq!(ZookeeperUrl::parse("zookeeper://a").unwrap().chroot, "");
        for url in ["zookeeper://", "zookeeper://a,,b", "zookeeper://a:0", "zookeeper://a:b", "zk://a"] {
            assert!(ZookeeperUrl::parse(url).is_err(), "{url}");
        }
        for url in ["zookeeper://me@a", "zookeeper://a//b", "zookeeper://a/../b", "zookeeper://a b"] {
            assert!(ZookeeperUrl::parse(url).is_err(), "{url}");
        }
    }
}
