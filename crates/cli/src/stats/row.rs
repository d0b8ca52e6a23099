//! A row of what is said, and amounts in words.

/// A label and its value.
pub type Row = (String, String);

pub fn row(label: impl Into<String>, value: impl Into<String>) -> Row {
    (label.into(), value.into())
}

pub fn count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
