//! What one history has, drawn by seed: its setting and its script.

use crate::mix::mix;
use crate::script::Script;
use crate::setting::{DURABILITY_FULL, Setting};
use crate::workload::Workload;
use crate::{absorbed, slots};

/// The setting of one history. Every second history differs in two ways. SQLite checkpoints by
/// itself, in its commits, where the strategy would do it in a thread. And where `synchronous` is
/// switched, every commit is to be durable whatever it says. Some strategies have options by seed.
pub fn drawn_setting(asked: &Setting, workload: Workload, seed: u64) -> Setting {
    let mut setting = absorbed::drawn(asked.with_uri(workload.uri()), seed);
    let ours = setting.is_ours();
    let chosen = |number: u32| ours && mix(seed) >> number & 1 != 0;
    if chosen(0) {
        setting = setting.with_uri("checkpoints=sqlite");
    }
    setting = slots::drawn(setting, seed);
    if chosen(1) && workload.switches_synchronous() && !setting.acknowledges_early() {
        setting = setting.with_uri(DURABILITY_FULL);
    }
    setting
}

impl Script {
    /// The script of a workload, with what the log of the setting's strategy asks for.
    pub fn draw_for(setting: &Setting, workload: Workload, seed: u64) -> Script {
        let script = Script::draw(workload, seed);
        match script {
            script if setting.has_slots() => slots::varied(script),
            script if setting.absorbs_journal() => absorbed::varied(script),
            script => script,
        }
    }
}
