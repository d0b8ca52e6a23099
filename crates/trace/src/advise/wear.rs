//! How much writing a device takes: what its maker says, and what the device says of itself.
//!
//! | source | says |
//! |---|---|
//! | terabytes written (TBW) | how much may be written in all |
//! | eMMC `life_time` | how much of its life is used, in tenths, for two kinds of memory |
//! | eMMC `pre_eol_info` | whether its spare blocks run out |
//! | NVMe SMART | percentage used, and how much was written |
//!
//! NVMe's two numbers together say how much may be written in all, if writing goes on as it did.
//! eMMC says nothing of bytes. What the device writes itself for what it is sent (write
//! amplification) is in none of them but as it was so far.

use serde::Serialize;
use serde_json::Value;

const TB: f64 = 1e12;
/// NVMe's data units are 1,000 of 512 bytes.
const DATA_UNIT_BYTES: f64 = 512_000.0;
const DAYS_PER_YEAR: f64 = 365.25;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WearError {
    #[error(
        "{0:?} is neither an eMMC's life_time (two numbers such as 0x01 0x02) nor what nvme \
         smart-log --output-format=json prints"
    )]
    Unknown(String),
    #[error("{0:?} is no number of an eMMC's life_time; the numbers are 0x00 to 0x0b")]
    LifeTime(String),
    #[error("the SMART log has no percentage_used and data_units_written; nvme-cli prints both")]
    Smart,
}

/// What is known of a device's wear. Shares are of its whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wear {
    /// Which file, device or option says it.
    pub source: String,
    /// How much of its life is used, between these.
    pub used_share_min: Option<f64>,
    pub used_share_max: Option<f64>,
    /// What was written so far.
    pub written_bytes: Option<f64>,
    /// What may be written in all, as the maker says.
    pub tbw_bytes: Option<f64>,
    /// What a person must know of the device.
    pub warning: Option<&'static str>,
}

/// How long a device lasts at some rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Life {
    pub years_min: f64,
    pub years_max: f64,
}

impl Wear {
    /// The maker's figure.
    pub fn of_tbw(terabytes: f64) -> Wear {
        Wear { source: "--tbw".to_owned(), tbw_bytes: Some(terabytes * TB), ..Wear::default() }
    }

    /// `text`: the content of `source`, of either kind.
    pub fn parse(source: &str, text: &str) -> Result<Wear, WearError> {
        let wear = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(smart)) => of_smart(&Value::Object(smart))?,
            _ => of_life_time(text)?,
        };
        Ok(Wear { source: source.to_owned(), ..wear })
    }

    /// eMMC's `pre_eol_info`.
    pub fn with_pre_eol(mut self, text: &str) -> Wear {
        self.warning = self.warning.or(match hexadecimal(text.trim()) {
            Some(2) => Some("80 % of its spare blocks are used (pre_eol_info 0x02)"),
            Some(3) => Some("90 % of its spare blocks are used: replace it (pre_eol_info 0x03)"),
            _ => None,
        });
        self
    }

    /// What the maker says counts beside what the device says.
    pub fn with_tbw(mut self, terabytes: Option<f64>) -> Wear {
        self.tbw_bytes = terabytes.map(|terabytes| terabytes * TB).or(self.tbw_bytes);
        self
    }

    /// How many bytes it still takes, at least and at most. `None`: nobody says it.
    pub fn left_bytes(&self) -> Option<(f64, f64)> {
        let used = self.used_share_min.zip(self.used_share_max);
        match (self.tbw_bytes, used, self.written_bytes) {
            (Some(all), Some((min, max)), _) => Some((all * (1.0 - max), all * (1.0 - min))),
            (Some(all), None, _) => Some((all, all)),
            // What was written stands for the share that it used.
            (None, Some((min, max)), Some(written)) if min > 0.0 => {
                Some((written / max * (1.0 - max), written / min * (1.0 - min)))
            }
            _ => None,
        }
    }

    /// `None`: nobody says it, or nothing is written.
    pub fn life(&self, bytes_per_day: f64) -> Option<Life> {
        let (min, max) = self.left_bytes()?;
        let years = |bytes: f64| bytes / bytes_per_day / DAYS_PER_YEAR;
        (bytes_per_day > 0.0).then(|| Life { years_min: years(min), years_max: years(max) })
    }
}

/// Type A and type B, each in tenths: 0x01 is up to 10 %, 0x0b is beyond its life.
fn of_life_time(text: &str) -> Result<Wear, WearError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let unknown = || WearError::Unknown(text.trim().chars().take(40).collect());
    if words.is_empty() || words.len() > 2 {
        return Err(unknown());
    }
    let mut worst = 0;
    for word in words {
        let number = hexadecimal(word).ok_or_else(unknown)?;
        if number > 0x0b {
            return Err(WearError::LifeTime(word.to_owned()));
        }
        worst = worst.max(number);
    }
    let tenths = |number: u64| number as f64 / 10.0;
    Ok(match worst {
        // Not defined: the device does not say it.
        0 => Wear::default(),
        0x0b => Wear {
            used_share_min: Some(1.0),
            used_share_max: Some(1.0),
            warning: Some("it is beyond the life that its maker gives it (life_time 0x0b)"),
            ..Wear::default()
        },
        worst => Wear {
            used_share_min: Some(tenths(worst - 1)),
            used_share_max: Some(tenths(worst)),
            ..Wear::default()
        },
    })
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// nvme-cli's names; older versions say `percent_used`. A number may be a text.
fn of_smart(smart: &Value) -> Result<Wear, WearError> {
    let number = |names: &[&str]| {
        let value = names.iter().find_map(|name| smart.get(name))?;
        let number =
            value.as_f64().or_else(|| value.as_str()?.replace(',', "").trim().parse().ok())?;
        (number.is_finite() && number >= 0.0).then_some(number)
    };
    let used = number(&["percentage_used", "percent_used"]).ok_or(WearError::Smart)?;
    let units = number(&["data_units_written"]).ok_or(WearError::Smart)?;
    let is_worn = used >= 100.0;
    // The device rounds. 0 may be anything below 1 %.
    let (min, max) = if used == 0.0 { (0.0, 1.0) } else { (used - 0.5, used + 0.5) };
    Ok(Wear {
        used_share_min: Some((min / 100.0).min(1.0)),
        used_share_max: Some((max / 100.0).min(1.0)),
        written_bytes: Some(units * DATA_UNIT_BYTES),
        warning: is_worn.then_some("it is beyond the life that its maker gives it"),
        ..Wear::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terabytes_written_last_as_long_as_the_rate_says() {
        let life = Wear::of_tbw(150.0).life(3.1e9).unwrap();
        assert!((life.years_min - 132.5).abs() < 0.1, "{life:?}");
        assert_eq!(life.years_min, life.years_max);
        assert_eq!(Wear::of_tbw(150.0).life(0.0), None);
    }

    #[test]
    fn an_emmc_says_its_used_life_in_tenths_and_nothing_of_bytes() {
        let wear = Wear::parse("life_time", "0x01 0x03\n").unwrap();
        assert_eq!((wear.used_share_min, wear.used_share_max), (Some(0.2), Some(0.3)));
        assert_eq!(wear.life(1e9), None);
        let (min, max) = wear.clone().with_tbw(Some(10.0)).left_bytes().unwrap();
        assert!((min - 7e12).abs() < 1e6 && (max - 8e12).abs() < 1e6);
        assert!(wear.with_pre_eol("0x02\n").warning.unwrap().contains("spare"));
        assert!(Wear::parse("", "0x0b 0x01").unwrap().warning.is_some());
        assert_eq!(Wear::parse("", "0x00 0x00").unwrap().used_share_min, None);
        assert_eq!(Wear::parse("", "0x0c 0x01"), Err(WearError::LifeTime("0x0c".to_owned())));
        assert!(Wear::parse("", "Dear reader").unwrap_err().to_string().contains("Dear reader"));
    }

    #[test]
    fn an_nvmes_percentage_and_units_say_what_it_takes_in_all() {
        let smart = r#"{"percent_used": 10, "data_units_written": "20000000", "temperature": 300}"#;
        let wear = Wear::parse("smart.json", smart).unwrap();
        let (min, max) = wear.left_bytes().unwrap();
        // 10.24 TB used a tenth, within half a percent.
        let expected = 10.24e12 / 0.1 * 0.9;
        assert!(min < expected && expected < max && max < expected * 1.1, "{min} {max}");
        let fresh = r#"{"percentage_used": 0, "data_units_written": 5}"#;
        assert_eq!(Wear::parse("", fresh).unwrap().left_bytes(), None);
        assert_eq!(Wear::parse("", "{}"), Err(WearError::Smart));
    }
}
