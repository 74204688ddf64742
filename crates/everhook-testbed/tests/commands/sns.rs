//! Messages of Amazon SNS that Amazon's own validator has judged (`scripts/provider-signatures/sns.cjs`): our recipe must judge the same bytes alike.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::{
    inbound::{Credentials, FetchedKey, InboundRequest, Reading, Refusal, Verifier, kind},
    time::Timestamp,
};
use everhook_testbed::skipped::skipped;
use serde_json::Value;

/// The variable that names the file with the messages.
const MESSAGES: &str = "EVERHOOK_TEST_SNS_MESSAGES";

#[test]
fn messages_are_judged_as_by_the_validator_of_amazon() {
    let Some(file) = std::env::var_os(MESSAGES) else {
        skipped(&format!("{MESSAGES} is not set: our recipe of Amazon SNS was not compared with Amazon's validator"));
        return;
    };
    let judged: Value = serde_json::from_slice(&std::fs::read(file).expect("the messages")).expect("JSON");
    let credentials = Credentials { app_id: judged["topic"].as_str().map(str::to_owned), ..Credentials::default() };
    let verifier = Verifier::new(Arc::new(kind("aws-sns").expect("a kind").compile()), &credentials, None).expect("a verifier");
    let now = Timestamp::from_secs(judged["now"].as_i64().expect("a time"));
    let certificate = judged["certificate"].as_str().expect("a certificate");
    let cases = judged["cases"].as_array().expect("cases");
    assert!(cases.len() >= 16 && cases.iter().any(|case| case["accepted"] == false), "too few messages");
    for case in cases {
        let body = Bytes::from(case["body"].as_str().expect("a body").to_owned());
        let request = InboundRequest {
            method: "POST",
            url: "https://hooks.example.com/in/sns",
            query: "",
            path_type: None,
            // SNS says that it sends text.
            headers: &[("content-type", b"text/plain; charset=UTF-8")],
            body: &body,
            awaiting_handshake: false,
        };
        let name = &case["name"];
        let Reading::NeedsKey(wanted) = verifier.read(&request, now) else { panic!("{name}: no certificate is asked for") };
        let key = FetchedKey::parse(&wanted, certificate.as_bytes()).expect("a certificate");
        let reading = verifier.read_with_key(&request, now, &key);
        match case["accepted"].as_bool().expect("a judgment") {
            true => assert!(matches!(reading, Reading::Accepted(_) | Reading::Handshake(_)), "{name}: {reading:?}"),
            false => assert!(matches!(reading, Reading::Refused(Refusal::BadSignature)), "{name}: {reading:?}"),
        }
    }
}
