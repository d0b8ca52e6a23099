//! Names in one line, as the kernel writes them into `/proc/mounts`. Odd bytes are `\ooo`, three
//! octal digits.

/// Control characters and backslashes are escaped. Everything else stays, also spaces.
pub(crate) fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_control() || byte == b'\\' {
            escaped.extend(format!("\\{byte:03o}").into_bytes());
        } else {
            escaped.push(byte);
        }
    }
    escaped
}

/// With the bytes that `\ooo` stands for; other backslashes stay.
pub(crate) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| first == b'\\');
        let octal =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)), all);
        assert!(!escape(&all).contains(&b'\n'));
    }

    #[test]
    fn other_backslashes_stay() {
        assert_eq!(unescape(br"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(br"\9\04\777"), br"\9\04\777");
    }
}
