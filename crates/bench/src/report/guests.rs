//! Runs in guests as one report: the same modes on several file systems, side by side.
//!
//! What depends on time is left out of the words: a guest's processor is emulated. Nothing is
//! compared with a control, and the conclusion says what counts.

use super::Report;

/// What every report of a guest says.
pub const MEANING: &str = "In a guest, emulated: latencies mean nothing, and rates neither. KB, \
    writes and flushes are exact; they were counted at the guest's block device.";

impl Report {
    /// `reports`: at least one, each with its file system, all of the same plan. `emulator` is for
    /// the headline.
    pub fn of_guests(reports: Vec<(String, Report)>, emulator: &str) -> Option<Report> {
        let names: Vec<String> = reports.iter().map(|(fs, _)| fs.clone()).collect();
        let mut notes: Vec<String> = Vec::new();
        let mut all = Vec::new();
        let mut whole: Option<Report> = None;
        for (fs, mut report) in reports {
            for (at, mut mode) in std::mem::take(&mut report.modes).into_iter().enumerate() {
                mode.guest = Some(fs.clone());
                mode.to_control = None;
                all.push((at, mode));
            }
            for note in std::mem::take(&mut report.notes) {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            whole.get_or_insert(report);
        }
        // The same mode on all file systems, then the next; stable, so as they were asked for.
        all.sort_by_key(|(at, _)| *at);
        let mut whole = whole?;
        whole.modes = all.into_iter().map(|(_, mode)| mode).collect();
        whole.environment.place = format!("guests with {}; {emulator}", names.join(", "));
        whole.environment.fs = names.join(",");
        if names.len() > 1 {
            whole.environment.mount_options = "each with its defaults".to_owned();
        }
        whole.notes = notes;
        whole.conclusion = MEANING.to_owned();
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn the_same_mode_stands_side_by_side_and_nothing_is_said_of_times() {
        let of = |fs: &str| {
            let round = || vec![sample::round(100.0, sample::latency(1000, 2000))];
            let modes = vec![
                sample::mode("delete:sqlite", 1, round()),
                sample::mode("delete:maw", 1, round()),
            ];
            (fs.to_owned(), sample::report(modes))
        };
        let report = Report::of_guests(vec![of("f2fs"), of("ext4")], "QEMU 7").unwrap();
        let labels: Vec<String> = report.modes.iter().map(|mode| report.label(mode)).collect();
        let expected =
            ["f2fs delete:sqlite", "ext4 delete:sqlite", "f2fs delete:maw", "ext4 delete:maw"];
        assert_eq!(labels, expected);
        let text = report.to_table();
        assert!(text.contains("guests with f2fs, ext4; QEMU 7"), "{text}");
        assert!(text.contains("latencies mean nothing") && !text.contains("SLOWER"), "{text}");
        let again: Report = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(again.to_table(), text);
        assert!(report.to_csv().contains(",f2fs,"), "{}", report.to_csv());
        assert!(Report::of_guests(Vec::new(), "").is_none());
    }
}
