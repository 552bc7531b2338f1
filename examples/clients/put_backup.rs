//! Puts a file into an object store, below `fencing run`, which gives it the token of its lease:
//!
//! ```sh
//! fencing run --resource backups/app -- sh -c 'pg_dump -f app.dump app && put_backup app.dump s3://backups/app/latest'
//! ```
//!
//! A run that slept past its lease cannot replace a newer backup. A dump that failed is not put: a pipe would not know.

use std::process::ExitCode;
use std::sync::Arc;

use fencing::Token;
use fencing::object::ObjectFence;
use tokio::fs::File;
use tokio_util::io::ReaderStream;
use url::Url;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match put().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("put_backup: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn put() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, url] = &arguments[..] else { return Err("usage: put_backup FILE s3://BUCKET/PATH".into()) };
    let token: Token = std::env::var("FENCING_TOKEN").map_err(|_| "run it below fencing run")?.parse()?;
    let backup = File::open(file).await.map_err(|error| format!("{file}: {error}"))?;
    // The rest of the URL is a path in the bucket.
    let (store, path) = object_store::parse_url_opts(&Url::parse(url)?, std::env::vars())?;
    let fence = ObjectFence::open(Arc::from(store)).await?;
    Ok(fence.put_stream(&path, token, ReaderStream::with_capacity(backup, 1 << 20)).await?)
}
