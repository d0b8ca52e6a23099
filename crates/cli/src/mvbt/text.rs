//! Numbers and bytes as people read them.

pub use crate::layout::{grouped, plural};

/// Below what `--limit` cuts off.
pub fn more(limit: usize) -> String {
    format!("  … there are more than {limit}; show them with --limit\n")
}

/// Bytes in so many columns: as text in quotes if they are that, else in hexadecimal.
pub fn bytes(bytes: &[u8], length: u64, columns: usize) -> String {
    let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let is_whole = bytes.len() as u64 == length;
    let (room, quote) =
        (columns.saturating_sub(3), if bytes.iter().all(is_text) { "\"" } else { "" });
    let shown: String = match quote {
        "" => bytes.iter().take(room / 2).map(|byte| format!("{byte:02x}")).collect(),
        _ => bytes.iter().take(room).map(|&byte| char::from(byte)).collect(),
    };
    let shown_bytes = if quote.is_empty() { room / 2 } else { room };
    let more = if is_whole && bytes.len() <= shown_bytes { "" } else { "…" };
    format!("{quote}{shown}{quote}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_and_other_bytes_are_hexadecimal() {
        assert_eq!(bytes(b"one two", 7, 20), "\"one two\"");
        assert_eq!(bytes(b"one two", 9, 8), "\"one t\"…");
        assert_eq!(bytes(&[0, 255], 2, 20), "00ff");
        assert_eq!(bytes(&[0; 40], 40, 13), "0000000000…");
        assert_eq!(bytes(b"", 0, 20), "\"\"");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(plural(1, "page") + &plural(1000, "page"), "1 page1,000 pages");
    }
}
