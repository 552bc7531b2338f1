use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

/// Where the locks are.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// On the Redis nodes, or on five in this process
    Nodes,
    /// In the database, beside the files and the fence
    Database,
    /// With another service: this one gives no leases, and cannot check what was issued
    Elsewhere,
}

/// A file store that refuses stale writes.
#[derive(Parser)]
#[command(version)]
pub struct Args {
    /// Where to listen [default: 127.0.0.1:8080; with --play a free port]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Redis nodes, separated by commas; without them five nodes in this process
    #[arg(long, env = "FENCING_REDIS", hide_env_values = true, value_delimiter = ',')]
    redis: Vec<String>,
    /// Where the locks are
    #[arg(long, value_enum, default_value_t = Place::Nodes)]
    pub lock: Place,
    /// sqlite:PATH, postgres://... or mysql://...; without it SQLite in memory
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database: Option<String>,
    /// An object store for the files: s3://BUCKET, az://CONTAINER, without it they are in the database
    #[arg(long, value_name = "URL")]
    pub files: Option<String>,
    /// Switch the fence off, to see what happens
    #[arg(long)]
    pub unguarded: bool,
    /// Play the stale write once against this service, and exit
    #[arg(long)]
    pub play: bool,
}

impl Args {
    pub fn address(&self) -> SocketAddr {
        let port = if self.play { 0 } else { 8080 };
        self.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], port)))
    }

    pub fn redis(&self) -> impl Iterator<Item = &str> {
        self.redis.iter().map(|url| url.trim()).filter(|url| !url.is_empty())
    }

    pub fn locks(&self) -> String {
        match self.lock {
            Place::Nodes => {}
            Place::Database => return "in the database of the files".into(),
            Place::Elsewhere => return "elsewhere: any token may raise a mark".into(),
        }
        match self.redis().count() {
            0 => "5 nodes in this process, which live and die with it (--redis for real ones)".into(),
            count => format!("{count} Redis nodes"),
        }
    }

    pub fn files(&self) -> &str {
        if let Some(url) = &self.files {
            return url;
        }
        match self.database.as_deref() {
            None => "SQLite in memory, which lives and dies with this process (--database)",
            Some(url) if url.starts_with("sqlite:") => "SQLite",
            Some(url) if url.starts_with("postgres") => "PostgreSQL",
            Some(_) => "MySQL or MariaDB",
        }
    }

    pub fn commands(&self, address: SocketAddr) -> String {
        let lease = match self.lock {
            Place::Elsewhere => "  # no leases here: get a token where yours come from\n".into(),
            Place::Nodes | Place::Database => format!(
                "  # a lease of a minute, with its token
  curl -s http://{address}/leases/files/report --json '{{\"ttl_ms\":60000}}'
"
            ),
        };
        format!(
            "Try, in another terminal:

{lease}  # a write under that token (put yours in); an older token gets 412
  curl -isX PUT http://{address}/files/report -H 'Fencing-Token: TOKEN' -d 'hello'
  # the file, and the token of its last write
  curl -is http://{address}/files/report

The whole story at once: --play, and --unguarded --play without the fence.
"
        )
    }
}
