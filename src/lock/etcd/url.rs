use std::time::Duration;

use percent_encoding::percent_decode_str;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::BuildError;

const PORT: u16 = 2379;
/// A connection that is used and does not answer to this is broken. Members refuse more than one in five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(6);
const PING_TIMEOUT: Duration = Duration::from_secs(3);

/// What a URL says: `etcd://user:password@a:2379,b:2379` or `etcds://a,b?ca=..&cert=..&key=..`.
pub(super) struct EtcdUrl {
    /// Each member and its name, without the password.
    pub(super) members: Vec<(String, Endpoint)>,
    /// The user and its password.
    pub(super) user: Option<(String, String)>,
}

impl EtcdUrl {
    pub(super) fn read(url: &str) -> Result<EtcdUrl, BuildError> {
        let (secure, rest) = match url.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(wrong("it must begin with etcd:// or etcds://")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (user, hosts) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((user, hosts)) => {
                let (name, password) =
                    user.split_once(':').ok_or_else(|| wrong("put a password after the user: user:password@host"))?;
                (Some((decoded(name)?, decoded(password)?)), hosts)
            }
        };
        let tls = match (secure, query) {
            (true, query) => Some(tls(query)?),
            (false, "") => None,
            (false, _) => return Err(wrong("only etcds:// takes ca=, cert= and key=")),
        };
        let hosts = hosts.trim_end_matches('/').split(',').map(str::trim);
        let members = hosts
            .filter(|host| !host.is_empty())
            .map(|host| member(host, tls.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() {
            return Err(wrong("it names no member: etcd://host:2379"));
        }
        Ok(EtcdUrl { members, user })
    }
}

fn wrong(problem: impl Into<String>) -> BuildError {
    BuildError::new("url", problem)
}

fn decoded(text: &str) -> Result<String, BuildError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(|text| text.into_owned()).map_err(|_| wrong("the user or the password is not UTF-8"))
}

fn member(host: &str, tls: Option<&ClientTlsConfig>) -> Result<(String, Endpoint), BuildError> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let name = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let unusable = |error| wrong(format!("{name:?} is not a host and port: {error}"));
    let endpoint = Endpoint::from_shared(format!("{scheme}://{name}")).map_err(unusable)?;
    let mut endpoint =
        endpoint.tcp_nodelay(true).http2_keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    if let Some(tls) = tls {
        let unusable = |error| wrong(format!("the certificates are not usable: {error}"));
        endpoint = endpoint.tls_config(tls.clone()).map_err(unusable)?;
    }
    Ok((name, endpoint))
}

/// Reads the files of `ca=`, `cert=` and `key=`. Without `ca`, the certificates of the system count.
fn tls(query: &str) -> Result<ClientTlsConfig, BuildError> {
    let (mut ca, mut cert, mut key) = (None, None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, path) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match name {
            "ca" => &mut ca,
            "cert" => &mut cert,
            "key" => &mut key,
            _ => return Err(wrong(format!("{name:?} is not one of ca, cert and key"))),
        };
        let path = decoded(path)?;
        *place = Some(std::fs::read(&path).map_err(|error| wrong(format!("{name}={path}: {error}")))?);
    }
    let tls = match ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(tls.identity(Identity::from_pem(cert, key))),
        (None, None) => Ok(tls),
        _ => Err(wrong("a certificate of the client needs both cert= and key=")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_members_and_a_user() {
        let address = EtcdUrl::read("etcd://me:p%40ss:w@a, b:1,[::1]:2/").unwrap();
        let names: Vec<_> = address.members.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a:2379", "b:1", "[::1]:2"]);
        assert_eq!(address.user, Some(("me".into(), "p@ss:w".into())));
        assert_eq!(EtcdUrl::read("etcd://[::1]").unwrap().members[0].0, "[::1]:2379");
    }

    #[test]
    fn a_url_that_does_not_fit_says_what_to_do() {
        for (url, advice) in [
            ("http://a", "must begin with etcd://"),
            ("etcd://", "names no member"),
            ("etcd://me@a", "user:password@host"),
            ("etcd://a?ca=x", "only etcds://"),
            ("etcds://a?ca=/nowhere/ca.pem", "ca=/nowhere/ca.pem: No such file"),
            ("etcds://a?cert=/dev/null", "both cert= and key="),
            ("etcds://a?certificate=x", "not one of ca, cert and key"),
            ("etcd://a b", "is not a host and port"),
        ] {
            let error = EtcdUrl::read(url).err().unwrap().to_string();
            assert!(error.contains(advice), "{url}: {error}");
        }
    }
}
