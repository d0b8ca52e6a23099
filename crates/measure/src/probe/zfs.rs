//! Whether ZFS keeps a sync. Its property `sync` is in no mount option, so an open cannot see it;
//! the program `zfs` says it.

use std::process::{Command, Stdio};

use oneflush_vfs::Verdict;

/// A sync does nothing.
pub(super) const DISABLED: &str = "disabled";

/// `standard`, `always` or `disabled`; None: there is no `zfs` here, or it does not know the data
/// set.
pub(super) fn sync_of(data_set: &str) -> Option<String> {
    ask(Command::new("zfs"), data_set)
}

fn ask(mut zfs: Command, data_set: &str) -> Option<String> {
    zfs.args(["get", "-H", "-o", "value", "sync", data_set])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let asked = zfs.output();
    let said = asked.ok().filter(|output| output.status.success())?.stdout;
    let value = String::from_utf8(said).ok()?.trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// To a verdict that knows nothing of it.
pub(super) fn warn(verdict: &mut Verdict, data_set: &str) {
    let said = format!(
        "{data_set} has sync=disabled, so a sync does nothing; zfs set sync=standard {data_set}"
    );
    verdict.reason = Some(match verdict.reason.take() {
        Some(reason) => format!("{reason}; {said}"),
        None => said,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_answer_is_the_property_and_where_there_is_none_nothing_is_known() {
        let answering = |script: &str| {
            let mut zfs = Command::new("sh");
            zfs.args(["-c", script, "zfs"]);
            ask(zfs, "tank/db")
        };
        let asked = r#"[ "$*" = "get -H -o value sync tank/db" ] && echo disabled"#;
        assert_eq!(answering(asked), Some(DISABLED.to_owned()));
        assert_eq!(answering("echo standard; exit 1"), None);
        assert_eq!(answering("true"), None);
        assert_eq!(ask(Command::new("/no/such/program"), "tank/db"), None);
    }

    #[test]
    fn a_disabled_sync_is_said_with_the_remedy_beside_what_was_said_already() {
        let mut verdict = Verdict { strategy: "eager", refuses: false, reason: None };
        warn(&mut verdict, "tank/db");
        let said = verdict.reason.clone().unwrap();
        assert!(
            said.contains("sync=disabled") && said.contains("zfs set sync=standard tank/db"),
            "{said}"
        );
        warn(&mut verdict, "tank/db");
        assert_eq!(verdict.reason, Some(format!("{said}; {said}")));
    }
}
