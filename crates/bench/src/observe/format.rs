//! An event's `format` file: its number, and where its fields are in the record.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::ObserveError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) id: u16,
    fields: HashMap<String, (usize, usize)>,
}

impl Format {
    pub(super) fn read(event_dir: &Path) -> Result<Format, ObserveError> {
        let path = event_dir.join("format");
        let text = fs::read_to_string(&path).map_err(|reason| ObserveError::Read { path: path.clone(), reason })?;
        Format::parse(&text).ok_or(ObserveError::Format { path, what: "no ID and fields found".to_owned() })
    }

    /// `field:char rwbs[10]; offset:28; size:10; signed:0;`, with tabs
    fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let fields = text.lines().filter_map(|line| {
            let mut parts = line.trim().split(';').map(str::trim);
            let declaration = parts.next()?.strip_prefix("field:")?;
            let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?;
            let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
            let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
            Some((name.to_owned(), (offset, size)))
        });
        Some(Format { id, fields: fields.collect() })
    }

    /// The bytes of a field, or nothing if the event has no such field or the record is too short.
    pub(super) fn bytes<'r>(&self, record: &'r [u8], field: &str) -> Option<&'r [u8]> {
        let &(offset, size) = self.fields.get(field)?;
        record.get(offset..offset.checked_add(size)?)
    }

    /// An unsigned number of 1 to 8 bytes.
    pub(super) fn number(&self, record: &[u8], field: &str) -> Option<u64> {
        let bytes = self.bytes(record, field)?;
        match bytes.len() {
            1 => Some(bytes[0].into()),
            2 => Some(u16::from_ne_bytes(bytes.try_into().ok()?).into()),
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::observe) const BIO: &str = "name: block_bio_queue\nID: 2097\nformat:\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char rwbs[10];\toffset:24;\tsize:10;\tsigned:0;\n\nprint fmt: \"%d\"\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(BIO).unwrap();
        assert_eq!(format.id, 2097);
        let mut record = [0; 34];
        record[16] = 7;
        record[24..26].copy_from_slice(b"WS");
        assert_eq!(format.number(&record, "sector"), Some(7));
        assert_eq!(format.bytes(&record, "rwbs").unwrap()[..2], *b"WS");
        assert_eq!(format.number(&record[..20], "sector"), None);
        assert_eq!(format.number(&record, "missing"), None);
        assert_eq!(Format::parse("nonsense"), None);
    }
}
