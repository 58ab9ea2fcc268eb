//! Chooses the checkpoints to delete.

use super::{CheckpointFile, CheckpointOptions};

/// The checkpoints in `found` (oldest first) to delete. The newest checkpoints stay; the others are the history. A
/// checkpoint of the history is deleted if it follows the previous kept checkpoint, or the start of the log, by less
/// than `spacing` positions. If the history is still too long or too large, more of its checkpoints are deleted, one
/// after the other. Each time, the checkpoint that leaves the smallest gap is deleted. So the rest stays evenly spread
/// over the log.
pub(super) fn superfluous(found: &[CheckpointFile], options: &CheckpointOptions) -> Vec<CheckpointFile> {
    let newest = options.newest.max(1).min(found.len());
    let (older, newest) = found.split_at(found.len() - newest);
    let mut kept: Vec<&CheckpointFile> = Vec::new();
    for candidate in older {
        let before = kept.last().map_or(0, |before| before.mark.position.0);
        if candidate.mark.position.0.saturating_sub(before) >= options.spacing.max(1) {
            kept.push(candidate);
        }
    }
    let end = newest.first().map_or(0, |first| first.mark.position.0);
    let fixed: u64 = newest.iter().map(|found| found.bytes).sum();
    let too_many = |kept: &[&CheckpointFile]| {
        kept.len() > options.history || fixed + kept.iter().map(|found| found.bytes).sum::<u64>() > options.disk
    };
    while !kept.is_empty() && too_many(&kept) {
        let position = |at: usize| kept.get(at).map_or(end, |found| found.mark.position.0);
        let gap = |at: &usize| position(at + 1).saturating_sub(if *at == 0 { 0 } else { position(at - 1) });
        let Some(least) = (0..kept.len()).min_by_key(gap) else { break };
        kept.remove(least);
    }
    older.iter().filter(|found| !kept.contains(found)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::Mark;
    use chronova_events::envelope::{Position, Timestamp};

    fn found(position: u64) -> CheckpointFile {
        let mark = Mark { position: Position(position), event: None, moment: Timestamp(0) };
        CheckpointFile { path: format!("{position}").into(), mark, bytes: 10, clear: false }
    }

    /// Writes checkpoints at these positions, one after the other. Returns the positions that are left.
    fn left(positions: impl IntoIterator<Item = u64>, options: &CheckpointOptions) -> Vec<u64> {
        let mut there: Vec<CheckpointFile> = Vec::new();
        for position in positions {
            there.push(found(position));
            let gone = superfluous(&there, options);
            there.retain(|found| !gone.contains(found));
        }
        there.iter().map(|found| found.mark.position.0).collect()
    }

    const ALL: CheckpointOptions = CheckpointOptions { newest: 2, history: 8, spacing: 1, disk: u64::MAX };

    #[test]
    fn the_newest_stay_even_beyond_the_disk_limit() {
        assert_eq!(left(1..=20, &CheckpointOptions { history: 0, ..ALL }), [19, 20]);
        assert_eq!(left(1..=20, &CheckpointOptions { disk: 0, ..ALL }), [19, 20]);
        assert_eq!(left(1..=20, &CheckpointOptions { disk: 45, ..ALL }).len(), 4);
        assert_eq!(left([7], &CheckpointOptions { newest: 0, history: 0, ..ALL }), [7]);
    }

    #[test]
    fn checkpoints_that_are_close_together_are_thinned_out() {
        assert_eq!(left((1..=10).map(|n| n * 100), &CheckpointOptions { spacing: 250, ..ALL }), [300, 600, 900, 1000]);
    }

    #[test]
    fn the_history_is_spread_over_the_log() {
        let left = left((1..=1_000).map(|n| n * 10), &ALL);
        assert_eq!(left.len(), 10);
        let largest = left.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(largest.is_some_and(|gap| gap <= 4 * 10_000 / 8), "{left:?}");
        assert!(left[0] <= 4 * 10_000 / 8, "{left:?}");
    }
}
