//! What a script needs of the machine that its databases are on: the simulated one, or a real one.

use crate::log::Mark;

/// Where the databases of a script are.
pub trait Machine: Sync {
    /// The VFS of SQLite alone on this machine.
    const BASE_VFS: &'static str;

    /// The path of a database, as one of the machine's processes names it. `file` begins with a
    /// slash.
    fn path(&self, process: usize, file: &str) -> String;

    /// Other processes change the databases, too, and this one knows nothing of what they make.
    fn has_others(&self) -> bool {
        false
    }

    /// Sets a mark, in order with the operations of the machine's disk.
    fn mark(&self, mark: Mark);

    /// Several threads commit at once from now on, or no more.
    fn threads_commit(&self, _at_once: bool) {}

    /// From now on connections are opened with another strategy. `is_sqlites`: the machine must
    /// spare SQLite's own commits what they are known not to survive.
    fn strategy_changes(&self, _is_sqlites: bool) {}

    /// Runs `call` as the last one of a process, which dies before its call number `at` to the
    /// disk. `None`: it died in `call`. A machine that cannot do this lets the process end.
    fn last_call<R: Send + 'static, H>(
        &self,
        _process: usize,
        _files: &[String],
        _at: u32,
        call: impl FnOnce() -> (R, H) + Send + 'static,
    ) -> Option<R> {
        Some(call().0)
    }
}
