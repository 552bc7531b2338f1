use super::AdmitError;

/// Counts what came of an admission, and logs a refusal, as the fence in the process does.
pub(super) fn counted<T>(outcome: Result<T, AdmitError>) -> Result<T, AdmitError> {
    let label = match &outcome {
        Ok(_) => "admitted",
        Err(error @ AdmitError::Retryable(_)) => {
            tracing::debug!(%error, "transaction not admitted");
            error.label()
        }
        Err(error) => {
            tracing::info!(%error, "transaction not admitted");
            error.label()
        }
    };
    metrics::counter!("fencing_admissions_total", "door" => "sql", "outcome" => label).increment(1);
    outcome
}
