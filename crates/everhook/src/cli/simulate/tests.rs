//! What is read, and what is shown.

use everhook_core::policy::outage::{Outage, simulate};

use super::*;

fn story(preset: &str, down: &str, rate: &str) -> SimulationResult {
    story_with(preset, down, rate, BreakerConfig { enabled: false, ..BreakerConfig::window() })
}

fn story_with(preset: &str, down: &str, rate: &str, breaker: BreakerConfig) -> SimulationResult {
    let schedule = parse_schedule(preset).unwrap();
    let (down_for, rate) = (units::parse_duration(down).unwrap(), units::parse_rate(rate).unwrap());
    let response_time = Duration::ZERO;
    let outage = Outage { schedule: &schedule, breaker, down_for, events_per_second: rate.per_second(), response_time };
    let aftermath = simulate(&outage, units_from(1));
    SimulationResult { aftermath, schedule, down_for, rate, breaker, response_time }
}

#[test]
fn durations_and_rates_need_units() {
    for (text, secs) in [("90s", 90), ("3h", 10_800), ("1h 30m", 5_400), ("2d", 172_800), ("1w", 604_800)] {
        assert_eq!(units::parse_duration(text), Ok(Duration::from_secs(secs)), "{text}");
    }
    for text in ["", "90", "soon", "0s", "31d", "-5s", "1y"] {
        assert!(units::parse_duration(text).is_err(), "{text}");
    }
    for (text, per_second) in [("20/s", 20.0), ("600/m", 10.0), ("36/h", 0.01), ("0.5/s", 0.5)] {
        assert_eq!(units::parse_rate(text).unwrap().per_second(), per_second, "{text}");
        assert_eq!(units::parse_rate(text).unwrap().to_string(), text);
    }
    for text in ["", "20", "0/s", "-1/s", "NaN/s", "inf/s", "20/d", "100001/s", "/s"] {
        assert!(units::parse_rate(text).is_err(), "{text}");
    }
    for (text, millis) in [("50ms", 50), ("2s", 2_000), ("1ms", 1), ("60s", 60_000)] {
        assert_eq!(units::parse_response_time(text), Ok(Duration::from_millis(millis)), "{text}");
    }
    for text in ["", "50", "0ms", "61s", "soon"] {
        assert!(units::parse_response_time(text).is_err(), "{text}");
    }
    assert!(parse_schedule("eager").unwrap_err().contains("standard, backoff"));
}

#[test]
fn numbers_are_written_for_people() {
    let cases = [
        (0, "0s"),
        (400, "0.4s"),
        (7_000, "7s"),
        (65_000, "1m 5s"),
        (305_000, "5m 5s"),
        (3_600_000, "1h"),
        (7_199_000, "2h"),
        (14_700_000, "4h 5m"),
        (183_600_000, "2d 3h"),
        (86_399_000, "1d"),
    ];
    for (millis, expected) in cases {
        assert_eq!(units::words(Duration::from_millis(millis)), expected, "{millis} ms");
    }
    for (count, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(units::grouped(count), expected);
    }
    for (rate, expected) in [(0.0, "0/s"), (0.034, "0.03/s"), (2.0, "2/s"), (2.34, "2.3/s"), (66.7, "67/s"), (1_234.5, "1,235/s")] {
        assert_eq!(units::per_second(rate), expected);
    }
}

#[test]
fn the_text_fits_80_columns_and_says_what_dies() {
    for (preset, down, rate) in
        [("standard", "3h", "20/s"), ("relay", "1h", "5000/s"), ("patient", "30d", "1/h"), ("job", "1s", "1/h"), ("relay", "1h", "1/h")]
    {
        let text = text_plot::draw(&story(preset, down, rate));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{preset}: {line}");
        }
        assert!(text.lines().count() <= 55, "{text}");
    }
    assert!(text_plot::draw(&story("relay", "1h", "10/s")).contains("✗ dead"));
    let with_breaker = text_plot::draw(&story_with("standard", "3h", "20/s", BreakerConfig::window()));
    assert!(with_breaker.contains("circuit breaker on") && with_breaker.lines().all(|line| line.chars().count() <= 80), "{with_breaker}");
    assert!(text_plot::draw(&story("relay", "1h", "1/h")).contains("none of them is left to send"));
    assert!(text_plot::draw(&story("standard", "3h", "20/s")).contains("delivered              216,000  100 %"));
}

#[test]
fn the_same_seed_gives_the_same_picture_and_json_has_every_event() {
    let (one, two) = (story("standard", "3h", "1/s"), story("standard", "3h", "1/s"));
    assert_eq!(svg::draw(&one), svg::draw(&two));
    let json = as_json(&one);
    assert_eq!(json["events"], 10_800);
    let delivered: u64 = json["load"]["delivered"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(delivered, 10_800);
}
