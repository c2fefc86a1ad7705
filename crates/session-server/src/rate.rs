//! Rates of transfer as people write them, in options and in the broker's configuration. Beside the
//! path. Knows text and numbers; never what is sent.

/// Bytes a second of the least rate and of the highest: 500 kbit/s, on which a desktop can still be
/// used, and 100 Gbit/s.
const RATE_MIN: u64 = 500_000 / 8;
const RATE_MAX: u64 = 100_000_000_000 / 8;

/// What a rate looks like, for errors.
pub const RATE_RULE: &str =
    "it has to be a number of bits a second with K, M or G, from 500K to 100G, such as 20M";

/// Bytes a second: `20M` are 20 Mbit/s. As with all rates of networks, K is 1000.
pub fn parse_rate(text: &str) -> Option<u64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[number.len()..] {
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| {
        (1..=12).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let parts = fraction.parse::<u64>().ok()?.checked_mul(factor)?;
    let parts = parts / 10_u64.pow(fraction.len() as u32);
    let bits = whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(parts)?;
    Some(bits / 8).filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_of_bits_and_limits() {
        assert_eq!(parse_rate("20M"), Some(2_500_000));
        assert_eq!(parse_rate("1.5M"), Some(187_500));
        assert_eq!(parse_rate("500K"), Some(RATE_MIN));
        assert_eq!(parse_rate("100G"), Some(RATE_MAX));
        let bad = [
            "",
            "M",
            "20",
            "20m",
            "500k",
            "499K",
            "101G",
            "-1M",
            "+1M",
            "1e3M",
            ".5M",
            "1.M",
            "1..5M",
            "20Mbit/s",
            "20 M",
            "99999999999999999999G",
            "1.9999999999999M",
            "NaNM",
        ];
        for text in bad {
            assert_eq!(parse_rate(text), None, "{text}");
        }
    }
}
