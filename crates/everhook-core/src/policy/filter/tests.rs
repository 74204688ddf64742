//! The language as a table: filter, data, whether it passes.

use super::*;

fn passes(filter: &str, data: &str) -> bool {
    let filter = Filter::parse(filter).unwrap_or_else(|reason| panic!("{filter}: {reason}"));
    filter.passes(&serde_json::from_str(data).unwrap(), &mut WorkBudget::new(10_000)).unwrap()
}

#[test]
fn every_operator_says_what_the_table_says() {
    let order = r#"{"amount": 100, "currency": "EUR", "paid": true, "note": null, "tags": ["a", 2], "lines": [{"sku": "x-1"}], "a.b": 1}"#;
    #[rustfmt::skip]
    let table = [
        // Plain values are `eq`.
        (r#"{"data.currency": "EUR"}"#, true),
        (r#"{"data.currency": "eur"}"#, false),
        (r#"{"data.paid": true}"#, true),
        (r#"{"data.note": null}"#, true),
        (r#"{"data.amount": 100.0}"#, true),
        (r#"{"data.amount": "100"}"#, false),
        // Operators, several of which must all hold.
        (r#"{"data.amount": {"eq": 100}}"#, true),
        (r#"{"data.amount": {"ne": 100}}"#, false),
        (r#"{"data.amount": {"gt": 99, "lt": 101}}"#, true),
        (r#"{"data.amount": {"gt": 100}}"#, false),
        (r#"{"data.amount": {"gte": 100}}"#, true),
        (r#"{"data.amount": {"lt": 100}}"#, false),
        (r#"{"data.amount": {"lte": 100}}"#, true),
        (r#"{"data.amount": {"gt": "1"}}"#, false),
        (r#"{"data.currency": {"gt": "AAA", "lte": "EUR"}}"#, true),
        (r#"{"data.currency": {"gt": 1}}"#, false),
        (r#"{"data.currency": {"in": ["USD", "EUR"]}}"#, true),
        (r#"{"data.currency": {"nin": ["USD", "EUR"]}}"#, false),
        (r#"{"data.amount": {"in": [1e2]}}"#, true),
        (r#"{"data.currency": {"prefix": "EU"}}"#, true),
        (r#"{"data.amount": {"prefix": "1"}}"#, false),
        (r#"{"data.currency": {"contains": "UR"}}"#, true),
        (r#"{"data.tags": {"contains": "a"}}"#, true),
        (r#"{"data.tags": {"contains": 2.0}}"#, true),
        (r#"{"data.tags": {"contains": "b"}}"#, false),
        (r#"{"data.paid": {"contains": "t"}}"#, false),
        // Paths.
        (r#"{"data.lines.0.sku": {"prefix": "x-"}}"#, true),
        (r#"{"data.lines.1.sku": {"exists": false}}"#, true),
        (r#"{"data.lines.sku": {"exists": true}}"#, false),
        (r#"{"data.a\\.b": 1}"#, true),
        (r#"{"data": {"exists": true}}"#, true),
        // What is not there: nothing holds but `exists: false`, `ne`, `nin` and `not`.
        (r#"{"data.no": null}"#, false),
        (r#"{"data.no": {"eq": null}}"#, false),
        (r#"{"data.no": {"ne": 1}}"#, true),
        (r#"{"data.no": {"nin": [1]}}"#, true),
        (r#"{"data.no": {"in": [null]}}"#, false),
        (r#"{"data.no": {"lt": 1}}"#, false),
        (r#"{"data.no": {"gte": 1}}"#, false),
        (r#"{"data.no": {"prefix": ""}}"#, false),
        (r#"{"data.no": {"contains": ""}}"#, false),
        (r#"{"data.no": {"exists": true}}"#, false),
        (r#"{"data.no": {"exists": false}}"#, true),
        (r#"{"data.note": {"exists": true}}"#, true),
        (r#"{"not": {"data.no": {"gte": 1}}}"#, true),
        // Joins.
        (r#"{"data.paid": true, "data.amount": {"gt": 1000}}"#, false),
        (r#"{"any": [{"data.amount": {"gt": 1000}}, {"data.currency": "EUR"}]}"#, true),
        (r#"{"all": [{"data.paid": true}, {"any": [{"data.amount": 1}, {"data.amount": 2}]}]}"#, false),
        (r#"{"not": {"data.paid": true, "data.amount": 1}}"#, true),
        (r#"{"not": {"not": {"data.paid": true}}}"#, true),
    ];
    for (filter, expected) in table {
        assert_eq!(passes(filter, order), expected, "{filter}");
    }
}

#[test]
fn numbers_are_compared_without_rounding() {
    #[rustfmt::skip]
    let table = [
        // value, operator, operand
        ("9007199254740993", "gt", "9007199254740992", true),
        ("9007199254740993", "eq", "9007199254740992.0", false),
        ("9007199254740993", "gt", "9007199254740992.0", true),
        ("18446744073709551615", "lt", "18446744073709551616.0", true),
        ("-9223372036854775808", "gt", "-1e300", true),
        ("1", "lt", "1.5", true),
        ("-1", "gt", "-1.5", true),
        ("0.1", "eq", "0.1", true),
        ("0.30000000000000004", "gt", "0.3", true),
        ("-0.0", "eq", "0", true),
        ("1e2", "eq", "100", true),
    ];
    for (value, operator, operand, expected) in table {
        assert_eq!(passes(&format!(r#"{{"data": {{"{operator}": {operand}}}}}"#), value), expected, "{value} {operator} {operand}");
    }
}

#[test]
fn what_is_no_filter_is_refused_with_words() {
    let nested = format!("{}{}{}", r#"{"not":"#.repeat(9), r#"{"data.a":1}"#, "}".repeat(9));
    let many = format!(r#"{{"any":[{}]}}"#, vec![r#"{"data.a":1}"#; 101].join(","));
    let cases = [
        ("1", "must be a JSON object"),
        ("{}", "at least one condition"),
        (r#"{"amount": 1}"#, "begins with `data`"),
        (r#"{"data.": 1}"#, "has no empty step"),
        (r#"{"data.a\\b": 1}"#, "is not a path"),
        (r#"{"data.a": {}}"#, "at least one operator"),
        (r#"{"data.a": [1]}"#, "`in` takes a list"),
        (r#"{"data.a": {"like": 1}}"#, "is not an operator"),
        (r#"{"data.a": {"gt": true}}"#, "a number or a string"),
        (r#"{"data.a": {"eq": {}}}"#, "a string, a number"),
        (r#"{"data.a": {"in": []}}"#, "a list of 1 to 100"),
        (r#"{"data.a": {"in": [[1]]}}"#, "a list of 1 to 100"),
        (r#"{"data.a": {"exists": 1}}"#, "true or false"),
        (r#"{"data.a": {"prefix": 1}}"#, "a string"),
        (r#"{"any": []}"#, "at least one filter"),
        (r#"{"all": {"data.a": 1}}"#, "a list"),
        (&nested, "deeper than 8 levels"),
        (&many, "at most 100 conditions, and has 101"),
        (&format!(r#"{{"data.a": "{}"}}"#, "x".repeat(FILTER_BYTES_MAX)), "at most 16384 bytes"),
    ];
    for (filter, words) in cases {
        let reason = Filter::parse(filter).err().unwrap_or_else(|| panic!("{filter} was taken"));
        assert!(reason.contains(words), "{filter}: {reason}");
    }
}

#[test]
fn conditions_cost_by_the_size_of_what_they_look_at() {
    let (many, long) = (format!("[{}2]", "1,".repeat(10_000)), format!("\"{}\"", "x".repeat(10_000)));
    let listed = format!(r#"{{"data": {{"in": [{}1]}}}}"#, "2,".repeat(99));
    let long_prefix = format!(r#"{{"data": {{"prefix": {long}}}}}"#);
    // Filter, data, and the least and the most that it costs.
    let cases = [
        (r#"{"data.a": 1}"#, r#"{"a": 1}"#, 1, 10),
        (r#"{"data": {"contains": 1}}"#, many.as_str(), 1, 10),
        (r#"{"data": {"contains": 2}}"#, &many, 10_000, 10_010),
        (r#"{"data": {"contains": "y"}}"#, &long, 600, 700),
        (r#"{"data": {"exists": true}}"#, &many, 1, 10),
        (&listed, "1", 100, 110),
        (&long_prefix, &long, 150, 200),
        (r#"{"any": [{"data": {"contains": 3}}, {"data": {"contains": 4}}]}"#, &many, 20_000, 20_010),
        (r#"{"all": [{"data": {"contains": 3}}, {"data": {"contains": 4}}]}"#, &many, 10_000, 10_010),
    ];
    for (filter, data, least, most) in cases {
        let (filter, data) = (Filter::parse(filter).unwrap(), serde_json::from_str(data).unwrap());
        let mut budget = WorkBudget::new(1_000_000);
        filter.passes(&data, &mut budget).unwrap();
        assert!((least..=most).contains(&budget.spent()), "{filter:?}: {}", budget.spent());
        assert!(filter.passes(&data, &mut WorkBudget::new(budget.spent() - 1)).is_err());
    }
}
