//! Numbers as sentences have them.

/// 1,234,567
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(super) fn amount(bytes: f64) -> String {
    const KB: f64 = 1024.0;
    match bytes {
        bytes if bytes < KB * KB => format!("{:.1} KB", bytes / KB),
        bytes if bytes < KB * KB * KB => format!("{:.1} MB", bytes / KB / KB),
        bytes => format!("{:.1} GB", bytes / KB / KB / KB),
    }
}

pub(super) fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.1} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

/// Two digits where one would say nothing: 0.16 %, 3.4 %, 76 %.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent == 0.0 || percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 1.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.2} %"),
    }
}
