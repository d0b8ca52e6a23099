//! Sizes on the command line: `1G`, `64M`, `512K` or plain bytes; powers of 1,024.

pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1u64 << 40,
        other => return Err(format!("unknown unit \"{other}\"; write for example 1G or 64M")),
    };
    let count: u64 =
        digits.parse().map_err(|_| "not a size; write for example 1G or 64M".to_owned())?;
    count.checked_mul(unit).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_powers_of_1024() {
        assert_eq!(parse("1G"), Ok(1 << 30));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("4096"), Ok(4096));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "G", "1X", "-1G", "1.5G", "99999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
