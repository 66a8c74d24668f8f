//! Detection of Slurm's live queue (`squeue --json`), which holds no accounting, and the error text for it.

/// Error text for a file of the live queue.
pub(super) const LIVE: &str =
    "these are jobs of the live queue (squeue --json, or slurmrestd's /slurm/…/jobs), which hold no accounting";
/// Remedy: the export to use in place of the live queue.
pub(super) const LIVE_REMEDY: &str = "export with `sacct --json`, or /slurmdb/…/jobs of slurmrestd";

/// Whether a text begins as the document of `squeue --json` does.
pub(super) fn is_live(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.to_ascii_lowercase().contains("\"slurm\":")
        && ["\"jobs\"", "\"job_state\""].iter().all(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::is_live;

    #[test]
    fn the_queue_is_told_from_accounting_and_nodes() {
        let of = |jobs: &str| format!("{{\"meta\": {{\"Slurm\": {{}}}}, {jobs}}}");
        assert!(is_live(&of("\"jobs\": [{\"job_state\": \"PENDING\"}]")));
        assert!(!is_live(&of("\"jobs\": [{\"state\": {\"current\": \"COMPLETED\"}}]")));
        assert!(!is_live(&of("\"nodes\": []")));
        assert!(!is_live("{\"jobs\": [{\"name\": \"slurm\", \"job_state\": \"x\"}]}"));
    }
}
