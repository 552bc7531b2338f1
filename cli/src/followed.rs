use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::exit::Failure;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What files say, parsed anew when one of them has changed. If they cannot be read, what they said before stays. A
/// thread reads them again and again: a file that does not answer holds up nothing else.
#[derive(Clone)]
pub(crate) struct Followed<T>(Arc<Mutex<Arc<T>>>);

impl<T: Send + Sync + 'static> Followed<T> {
    /// Reads the files for the first time. What `parse` refuses is reported with their names.
    pub(crate) fn open(
        paths: Vec<PathBuf>,
        parse: impl Fn(&[String]) -> Result<T, String> + Send + 'static,
    ) -> Result<Followed<T>, Failure> {
        let texts = read(&paths).map_err(Failure::usage)?;
        let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let parse = move |texts: &[String]| parse(texts).map_err(|why| format!("{names}: {why}"));
        let parsed = Arc::new(Mutex::new(Arc::new(parse(&texts).map_err(Failure::usage)?)));
        let follower = Arc::downgrade(&parsed);
        spawn_blocking(move || {
            let mut seen = Ok(texts);
            loop {
                thread::sleep(POLL_INTERVAL);
                let now = read(&paths);
                let Some(parsed) = follower.upgrade() else { return };
                if now == seen {
                    continue;
                }
                match now.as_deref().map_err(Clone::clone).and_then(&parse) {
                    Ok(new) => *parsed.lock() = Arc::new(new),
                    Err(error) => {
                        tracing::error!(%error, "a changed file cannot be used: its earlier contents stay in use")
                    }
                }
                seen = now;
            }
        });
        Ok(Followed(parsed))
    }

    pub(crate) fn now(&self) -> Arc<T> {
        Arc::clone(&self.0.lock())
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<String>, String> {
    let text = |path: &PathBuf| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    paths.iter().map(text).collect()
}
