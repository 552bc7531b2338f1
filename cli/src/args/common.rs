//! What several subcommands take.

/// The nodes of one fleet, and the namespace of the keys there.
#[derive(Debug, clap::Args)]
pub(crate) struct Redis {
    /// The nodes: independent masters. Other users can see a command line, so put URLs with
    /// passwords in the environment.
    #[arg(
        long = "redis",
        value_name = "URL,URL,...",
        env = "FENCING_REDIS",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    urls: Vec<String>,
    /// What the keys on the nodes begin with.
    #[arg(long, value_name = "NS", default_value = "fencing")]
    pub(crate) namespace: String,
}

impl Redis {
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        trimmed(&self.urls)
    }
}

/// The URLs, without what is left of a comma too many.
pub(crate) fn trimmed(urls: &[String]) -> impl Iterator<Item = &str> {
    urls.iter().map(|url| url.trim()).filter(|url| !url.is_empty())
}
