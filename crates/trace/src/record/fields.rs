//! Where an event has the fields that the recorder reads.

use super::form::Form;
use crate::kernel::{Field, Format};

/// Looked up once for each event, not for each record. `None` if the event has no such field.
pub(super) struct Fields {
    pub(super) thread: Option<Field>,
    pub(super) child: Option<Field>,
    /// The device of a request, or the one that a file's inode carries.
    pub(super) device: Option<Field>,
    /// The place of a request before it was mapped.
    pub(super) from_device: Option<Field>,
    pub(super) from_sector: Option<Field>,
    pub(super) bios: Option<Field>,
    pub(super) sector: Option<Field>,
    pub(super) sectors: Option<Field>,
    pub(super) bytes: Option<Field>,
    pub(super) flags: Option<Field>,
    pub(super) cmd: Option<Field>,
    pub(super) comm: Option<Field>,
    pub(super) priority: Option<Field>,
    pub(super) error: Option<Field>,
    pub(super) inode: Option<Field>,
    pub(super) transaction: Option<Field>,
    pub(super) is_sync_commit: Option<Field>,
    pub(super) lock: Option<Field>,
    pub(super) lock_start: Option<Field>,
    pub(super) lock_end: Option<Field>,
    pub(super) result: Option<Field>,
    /// Of a write into the page cache.
    pub(super) position: Option<Field>,
    pub(super) length: Option<Field>,
    pub(super) marker: Option<Field>,
    /// The fields that are printed with their names: the text before the value, and the value.
    pub(super) named: Vec<(Vec<u8>, Field)>,
}

impl Fields {
    pub(super) fn of(format: &Format, form: Option<Form>) -> Fields {
        let field = |name| format.field(name);
        Fields {
            thread: field("common_pid"),
            child: field("child_pid"),
            device: field("dev").or_else(|| field("s_dev")),
            from_device: field("old_dev"),
            from_sector: field("old_sector"),
            bios: field("nr_bios"),
            sector: field("sector"),
            sectors: field("nr_sector"),
            bytes: field("bytes"),
            flags: field("rwbs"),
            cmd: field("cmd"),
            comm: field("comm"),
            priority: field("ioprio"),
            error: field("error"),
            inode: field("ino").or_else(|| field("i_ino")),
            transaction: field("transaction"),
            is_sync_commit: field("sync_commit"),
            lock: field("type").or_else(|| field("fl_type")),
            lock_start: field("fl_start"),
            lock_end: field("fl_end"),
            result: field("ret"),
            position: field("pos"),
            length: field("len"),
            marker: field("buf"),
            named: named(format, form),
        }
    }
}

fn named(format: &Format, form: Option<Form>) -> Vec<(Vec<u8>, Field)> {
    let before: fn(&str) -> Option<String> = match form {
        Some(Form::Ext4) => |name| (!matches!(name, "dev" | "ino")).then(|| format!(" {name} ")),
        Some(Form::F2fs) => |name| {
            let prefix = if matches!(name, "mode" | "size" | "nlink" | "blocks" | "advise") {
                "i_"
            } else {
                ""
            };
            (!matches!(name, "dev" | "ino")).then(|| format!(", {prefix}{name} = "))
        },
        Some(Form::Fields) => |name| (name != "__syscall_nr").then(|| format!(" {name}=")),
        _ => |_| None,
    };
    format
        .own_fields()
        .filter_map(|(name, field)| Some((before(name)?.into_bytes(), field)))
        .collect()
}
