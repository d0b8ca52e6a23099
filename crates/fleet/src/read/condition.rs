//! `--where device=kiosk-7,day>=2026-11-01`: what rows must be like.
//!
//! A condition on something that is null is not met, as in SQL. Names are those of the columns of
//! both tables, of labels, and `day`.

use std::cmp::Ordering;

use crate::error::FleetError;
use crate::labels;
use crate::schema::{DAY, Kind, TRANSACTIONS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Op {
    /// Longer ones first, so that `<=` is not taken for `<`.
    const ALL: [(&'static str, Op); 6] = [
        ("<=", Op::AtMost),
        (">=", Op::AtLeast),
        ("!=", Op::NotEqual),
        ("=", Op::Equal),
        ("<", Op::Less),
        (">", Op::Greater),
    ];

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Op::Equal => ordering.is_eq(),
            Op::NotEqual => ordering.is_ne(),
            Op::Less => ordering.is_lt(),
            Op::AtMost => ordering.is_le(),
            Op::Greater => ordering.is_gt(),
            Op::AtLeast => ordering.is_ge(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) column: String,
    op: Op,
    text: String,
    /// The same as the column's kind has it; none of text.
    number: Option<Number>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Whole(i64),
    Real(f64),
}

/// Conditions that must all be met.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    pub(super) conditions: Vec<Condition>,
    text: String,
}

impl Filter {
    /// Each text may hold several, separated by commas.
    pub fn parse(texts: &[String]) -> Result<Filter, FleetError> {
        let parts = texts.iter().flat_map(|text| parts(text));
        let conditions = parts.map(str::trim).map(Condition::parse).collect::<Result<_, _>>()?;
        Ok(Filter { conditions, text: texts.join(",") })
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// As it was given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// At commas with a condition behind them. Others are part of a value.
fn parts(text: &str) -> Vec<&str> {
    let begins = |rest: &str| {
        let rest = rest.trim_start();
        let name = rest.trim_start_matches(|letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
        });
        name.len() < rest.len() && name.trim_start().starts_with(['=', '<', '>', '!'])
    };
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices(',') {
        if begins(&text[at + 1..]) {
            parts.push(&text[from..at]);
            from = at + 1;
        }
    }
    parts.push(&text[from..]);
    parts
}

impl Condition {
    fn parse(text: &str) -> Result<Condition, FleetError> {
        let wrong = |reason: String| FleetError::Where(format!("--where {text}: {reason}"));
        let at = text.find(['<', '>', '=', '!']);
        let found = at.and_then(|at| {
            Op::ALL.into_iter().find(|(sign, _)| text[at..].starts_with(sign)).map(|op| (at, op))
        });
        let Some((at, (sign, op))) = found else {
            return Err(wrong("is no condition; give for example device=kiosk-7".to_owned()));
        };
        let (column, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        if value.is_empty() || value.starts_with('=') {
            return Err(wrong("has no value; give for example device=kiosk-7".to_owned()));
        }
        let number =
            match kind(column) {
                Some(Kind::Whole) => Some(value.parse().map(Number::Whole).map_err(|_| {
                    wrong(format!("{value:?} is no whole number, and {column} has such"))
                })?),
                Some(Kind::Real) => Some(value.parse().map(Number::Real).map_err(|_| {
                    wrong(format!("{value:?} is no number, and {column} has such"))
                })?),
                Some(Kind::Time) => Some(Number::Whole(us(value).map_err(wrong)?)),
                Some(Kind::Texts) => {
                    return Err(wrong(format!("{column} is a list; ask for database")));
                }
                Some(Kind::Text | Kind::Flag) => None,
                None if column == DAY => {
                    if value.len() != DAY_LENGTH || us(value).is_err() {
                        return Err(wrong(format!("{value:?} is no day, such as 2026-11-28")));
                    }
                    None
                }
                None if ["notes", "files"].contains(&column) => {
                    return Err(wrong(format!("{column} is a list, which cannot be asked for")));
                }
                None => {
                    labels::check_name(column)
                        .or_else(|reason| {
                            let is_of_traces =
                                crate::schema::TRACES.iter().any(|known| known.name == column);
                            if is_of_traces { Ok(()) } else { Err(reason) }
                        })
                        .map_err(wrong)?;
                    None
                }
            };
        Ok(Condition { column: column.to_owned(), op, text: value.to_owned(), number })
    }

    /// Of a text; where both are numbers, they are compared as such.
    pub(super) fn is_met_by_text(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return false };
        let is_ordered = !matches!(self.op, Op::Equal | Op::NotEqual);
        let numbers = value.parse::<f64>().ok().zip(self.text.parse::<f64>().ok());
        match numbers.filter(|_| is_ordered) {
            Some((value, bound)) => self.op.holds(value.total_cmp(&bound)),
            None => self.op.holds(value.cmp(&self.text)),
        }
    }

    pub(super) fn is_met_by_whole(&self, value: i64) -> bool {
        match self.number {
            Some(Number::Whole(bound)) => self.op.holds(value.cmp(&bound)),
            _ => false,
        }
    }

    pub(super) fn is_met_by_real(&self, value: f64) -> bool {
        match self.number {
            Some(Number::Real(bound)) => self.op.holds(value.total_cmp(&bound)),
            _ => false,
        }
    }
}

/// `2026-11-28`.
const DAY_LENGTH: usize = 10;

/// Of a column of `transactions`.
pub(super) fn kind(column: &str) -> Option<Kind> {
    TRANSACTIONS.iter().find(|known| known.name == column).map(|known| known.kind)
}

/// A time or a day, in microseconds since 1970.
fn us(text: &str) -> Result<i64, String> {
    let whole =
        if text.len() == DAY_LENGTH { format!("{text}T00:00:00Z") } else { text.to_owned() };
    let time = labels::time(&whole)?;
    let since = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(since.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Condition, FleetError> {
        Filter::parse(&[text.to_owned()]).map(|mut filter| filter.conditions.remove(0))
    }

    #[test]
    fn texts_are_compared_as_texts_and_numbers_as_numbers() {
        assert!(one("device=7").unwrap().is_met_by_text(Some("7")));
        assert!(!one("device=7").unwrap().is_met_by_text(Some("07")));
        assert!(one("build>=10").unwrap().is_met_by_text(Some("9.5e1")));
        assert!(!one("build>=10").unwrap().is_met_by_text(Some("9")));
        assert!(one("day < 2026-11-28").unwrap().is_met_by_text(Some("2026-11-27")));
        assert!(!one("device!=7").unwrap().is_met_by_text(None));
        assert!(one("latency_ns>=1000").unwrap().is_met_by_whole(1000));
        assert!(one("confidence<0.7").unwrap().is_met_by_real(0.5));
        assert!(one("begin<=1970-01-02").unwrap().is_met_by_whole(86_400_000_000));
    }

    #[test]
    fn several_conditions_stand_in_one_text() {
        let filter = Filter::parse(&["a=1,b!=2".to_owned(), "c<3".to_owned()]).unwrap();
        assert_eq!(filter.conditions.len(), 3);
        assert_eq!(filter.text(), "a=1,b!=2,c<3");
        let filter =
            Filter::parse(&["database=/data/x, y/a.db, day>=2026-11-28".to_owned()]).unwrap();
        assert!(filter.conditions[0].is_met_by_text(Some("/data/x, y/a.db")));
        assert_eq!(filter.conditions.len(), 2);
    }

    #[test]
    fn what_is_no_condition_is_said() {
        for (text, said) in [
            ("device", "is no condition"),
            ("latency_ns>slow", "no whole number"),
            ("day>=yesterday", "no day"),
            ("day>=2026-11-28T00:00:00Z", "no day"),
            ("device=", "no value"),
            ("device==7", "no value"),
            ("notes=x", "is a list"),
            ("others=x", "is a list"),
            ("Device=x", "small letters"),
        ] {
            let error = one(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--where {text}: ")) && error.contains(said),
                "{error}"
            );
        }
    }
}
