//! An event's `format` file: its number, and the places of its fields in the record.
//!
//! Names are looked up once, when the format is read ([`Format::field`]). Of each record, only
//! places are read ([`Field`]).

use std::fs;
use std::path::Path;

use super::KernelError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    pub id: u16,
    /// In the order of the record.
    fields: Vec<(String, Field)>,
}

/// The place of a field in the event's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
    /// The field only says where its bytes are in the record (`__data_loc`).
    is_elsewhere: bool,
}

impl Format {
    pub fn read(event_dir: &Path) -> Result<Format, KernelError> {
        let path = event_dir.join("format");
        let text = fs::read_to_string(&path)
            .map_err(|reason| KernelError::Read { path: path.clone(), reason })?;
        Format::parse(&text)
            .ok_or(KernelError::Format { path, what: "no ID and fields found".to_owned() })
    }

    fn parse(text: &str) -> Option<Format> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        Some(Format { id, fields: text.lines().filter_map(Field::parse).collect() })
    }

    /// The field of that name. `None` if the event has no such field.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }

    /// The event's own fields (not those that all events have), in the order of the record.
    pub fn own_fields(&self) -> impl Iterator<Item = (&str, Field)> {
        let own = self.fields.iter().filter(|(name, _)| !name.starts_with("common_"));
        own.map(|(name, field)| (name.as_str(), *field))
    }
}

/// A read gives nothing if the record is too short.
impl Field {
    /// The bytes of the field in their place.
    pub fn bytes(self, record: &[u8]) -> Option<&[u8]> {
        if self.is_elsewhere {
            return None;
        }
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// An unsigned number of 1 to 8 bytes.
    pub fn number(self, record: &[u8]) -> Option<u64> {
        match *self.bytes(record)? {
            [byte] => Some(byte.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }

    /// A number that may be negative.
    pub fn signed(self, record: &[u8]) -> Option<i64> {
        match *self.bytes(record)? {
            [a, b, c, d] => Some(i32::from_ne_bytes([a, b, c, d]).into()),
            [a, b, c, d, e, f, g, h] => Some(i64::from_ne_bytes([a, b, c, d, e, f, g, h])),
            _ => None,
        }
    }

    /// Text up to its end mark. Of a field without a size, up to the end of the record.
    pub fn text(self, record: &[u8]) -> Option<&[u8]> {
        let bytes = if self.is_elsewhere {
            // Length in the high half, place in the low one.
            let place = record.get(self.offset..self.offset.checked_add(4)?)?;
            let place = u32::from_ne_bytes(place.try_into().ok()?);
            let (start, length) = ((place & 0xFFFF) as usize, (place >> 16) as usize);
            record.get(start..start.checked_add(length)?)?
        } else if self.size == 0 {
            record.get(self.offset..)?
        } else {
            self.bytes(record)?
        };
        bytes.split(|&byte| byte == 0).next()
    }

    /// `field:char rwbs[10]; offset:28; size:10; signed:0;`, with tabs
    fn parse(line: &str) -> Option<(String, Field)> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let is_elsewhere = declaration.starts_with("__data_loc");
        let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?.to_owned();
        let offset = parts.next()?.strip_prefix("offset:")?.parse().ok()?;
        let size = parts.next()?.strip_prefix("size:")?.parse().ok()?;
        Some((name, Field { offset, size, is_elsewhere }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIO: &str = "name: block_bio_queue\nID: 2097\nformat:\n\
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
        let (sector, rwbs) = (format.field("sector").unwrap(), format.field("rwbs").unwrap());
        assert_eq!(sector.number(&record), Some(7));
        assert_eq!(rwbs.bytes(&record).unwrap()[..2], *b"WS");
        assert_eq!(sector.number(&record[..20]), None);
        assert_eq!(format.field("missing"), None);
        assert_eq!(rwbs.text(&record), Some(&b"WS"[..]));
        assert_eq!(
            format.own_fields().map(|(name, _)| name).collect::<Vec<_>>(),
            ["dev", "sector", "rwbs"]
        );
        assert_eq!(Format::parse("nonsense"), None);
    }

    #[test]
    fn text_that_is_elsewhere_and_text_to_the_end_are_found() {
        let text = "ID: 5\n\tfield:__data_loc char[] cmd;\toffset:0;\tsize:4;\tsigned:0;\n\
            \tfield:char buf[];\toffset:4;\tsize:0;\tsigned:0;\n";
        let format = Format::parse(text).unwrap();
        let mut record = (3u32 << 16 | 6).to_ne_bytes().to_vec();
        record.extend(b"a\0bc\0");
        let (cmd, buf) = (format.field("cmd").unwrap(), format.field("buf").unwrap());
        assert_eq!(cmd.text(&record), Some(&b"bc"[..]));
        assert_eq!(buf.text(&record), Some(&b"a"[..]));
        assert_eq!(cmd.text(&record[..6]), None);
    }
}
