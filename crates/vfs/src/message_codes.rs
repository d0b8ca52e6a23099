//! The code at the end of a message, such as `[OF-101]`. `docs/errors.md` has an entry for each.

const BEGIN: &str = " [OF-";
const DIGITS: usize = 3;

/// The text of a message for a field of JSON or a table, which has no codes.
pub fn without_codes(message: &str) -> String {
    let mut parts = message.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_at_checked(DIGITS) {
            Some((digits, rest))
                if digits.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with(']') =>
            {
                text += &rest[1..];
            }
            _ => {
                text += BEGIN;
                text += part;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_left_out_wherever_they_stand_and_nothing_else_is() {
        let message = "a page is damaged [OF-311]. Restore it [OF-306]";
        assert_eq!(without_codes(message), "a page is damaged. Restore it");
        for text in ["", "plain", "a name [OF-", "a name [OF-12].db", "a name [OF-1ü3]"] {
            assert_eq!(without_codes(text), text);
        }
    }
}
