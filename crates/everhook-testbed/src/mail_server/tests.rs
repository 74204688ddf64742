//! Mail over real sockets: what the adapter makes of whatever a mail server may do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use everhook_adapters::smtp::{SmtpAddress, SmtpNotifier};
use everhook_core::{
    model::{EmailAddress, EmailSender, FailureCategory, Report, Secret, Sent},
    ports::{EmailMessage, Notifier as _},
    time::Timestamp,
};
use futures_util::future::join_all;
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::*;

fn notifier(url: &str) -> SmtpNotifier {
    trusting(url, vec![])
}

fn trusting(url: &str, roots: Vec<CertificateDer<'static>>) -> SmtpNotifier {
    SmtpNotifier::new(SmtpAddress::read(&Secret::new(url.to_owned())).unwrap(), sender("Everhook"), roots).unwrap()
}

fn to(server: &MailServer) -> SmtpNotifier {
    notifier(&format!("smtp://127.0.0.1:{}", server.port))
}

fn sender(name: &str) -> EmailSender {
    EmailSender { name: Some(name.to_owned()), address: EmailAddress::parse("hooks@example.com").unwrap() }
}

fn mail(number: u128) -> EmailMessage {
    EmailMessage {
        id: Uuid::from_u128(number),
        to: EmailAddress::parse("owner@shop.example").unwrap(),
        subject: "Endpoint disabled".to_owned(),
        text: "It answered 410.".to_owned(),
        html: None,
        created_at: Timestamp::from_secs(1_700_000_000),
        timeout: Duration::from_secs(5),
    }
}

fn failed(report: Report) -> (FailureCategory, String) {
    match report.sent {
        Sent::Failed { category, error, response: None } => (category, error),
        other => panic!("it did not fail for now: {other:?}"),
    }
}

fn is_accepted(report: &Report) -> bool {
    matches!(&report.sent, Sent::Answered(response) if response.status == 250)
}

fn certificate(name: &str) -> (CertificateDer<'static>, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap().der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    (certificate, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn a_mail_arrives_as_it_was_written_and_the_connection_is_kept() {
    let server = MailServer::start().await.unwrap();
    let notifier = to(&server);
    let message = EmailMessage { html: Some("<p>It answered <b>410</b>. Grüße</p>".to_owned()), ..mail(7) };
    for _ in 0..3 {
        let report = notifier.send(&message).await;
        assert!(is_accepted(&report), "{report:?}");
    }
    let taken = server.taken();
    assert_eq!((taken.len(), server.connections()), (3, 1));
    assert_eq!((&*taken[0].from, &*taken[0].to), ("hooks@example.com", &["owner@shop.example".to_owned()][..]));
    assert_eq!(taken[0].header("subject").unwrap(), "Endpoint disabled");
    assert_eq!(taken[0].header("from").unwrap(), "Everhook <hooks@example.com>");
    assert_eq!(taken[0].header("date").unwrap(), "Tue, 14 Nov 2023 22:13:20 +0000");
    assert_eq!(taken[0].header("auto-submitted").unwrap(), "auto-generated");
    let id = "<00000000-0000-0000-0000-000000000007@example.com>";
    assert!(taken.iter().all(|mail| mail.header("message-id").unwrap() == id), "a repeated mail can be recognized");
    assert!(taken[0].header("content-type").unwrap().starts_with("multipart/alternative"));
    assert!(taken[0].data.contains("It answered 410."));
}

#[tokio::test]
async fn nothing_that_is_written_into_a_mail_becomes_a_header_a_recipient_or_a_second_mail() {
    let server = MailServer::start().await.unwrap();
    let breaks = ["\r\n", "\n", "\r", "\u{2028}", "\u{85}"];
    for (number, end) in breaks.iter().enumerate() {
        let injected = format!("x{end}Bcc: victim@example.com{end}{end}second");
        let smuggled = format!("a{end}.{end}MAIL FROM:<x@y>{end}RCPT TO:<victim@example.com>{end}DATA{end}b{end}.{end}");
        let address = SmtpAddress::read(&Secret::new(format!("smtp://127.0.0.1:{}", server.port))).unwrap();
        let notifier = SmtpNotifier::new(address, sender(&injected), Vec::new()).unwrap();
        let message = EmailMessage { subject: injected.clone(), text: smuggled.clone(), html: Some(smuggled), ..mail(number as u128) };
        assert!(is_accepted(&notifier.send(&message).await));
    }
    let taken = server.taken();
    assert_eq!(taken.len(), breaks.len());
    for mail in taken {
        assert_eq!(mail.to, ["owner@shop.example"]);
        assert_eq!(mail.header("bcc"), None);
        assert!(mail.header("subject").is_some() && mail.header("from").is_some(), "each is there once");
        assert!(!mail.data.replace("\r\n", "").contains(['\r', '\n']), "no line ends but complete ones");
        assert!(mail.data.is_ascii());
    }
}

#[tokio::test]
async fn a_refusal_of_the_mail_or_its_recipient_is_for_good_and_all_else_may_pass() {
    use FailureCategory::{ClientError, Network, PayloadTooLarge, ServerError};
    use MailStep::{Body, Data, Greeting, Recipient, Sender};
    let refused = [
        (Recipient, "550 5.1.1 no such mailbox", ClientError, 550),
        (Data, "554 no valid recipients", ClientError, 554),
        (Body, "552 5.3.4 too large", PayloadTooLarge, 552),
        (Body, "554 5.7.1 spam", ClientError, 554),
    ];
    let server = MailServer::start().await.unwrap();
    for (step, reply, expected, code) in refused {
        server.script([(step, MailAction::Reply(reply))]);
        match to(&server).send(&mail(1)).await.sent {
            Sent::Refused { category, error, response: Some(response) } => {
                assert_eq!((category, response.status), (expected, code), "{reply}");
                assert!(error.contains(&reply[4..]), "{error}");
            }
            other => panic!("{reply}: {other:?}"),
        }
    }
    let passing = [
        (Greeting, MailAction::Reply("554 no service"), ServerError),
        (Greeting, MailAction::Close, Network),
        (Sender, MailAction::Reply("530 5.7.0 authentication required"), ServerError),
        (Sender, MailAction::Reply("451 busy"), ServerError),
        (Recipient, MailAction::Reply("450 4.2.0 greylisted"), ServerError),
        (Data, MailAction::Reply("421 closing"), ServerError),
        (Body, MailAction::Reply("452 4.3.1 no space"), ServerError),
        (Body, MailAction::Close, Network),
    ];
    for (step, action, expected) in passing {
        server.script([(step, action)]);
        let (category, error) = failed(to(&server).send(&mail(1)).await);
        assert_eq!(category, expected, "{step:?} {action:?}: {error}");
    }
    assert_eq!((server.taken().len(), server.script_left()), (0, 0));
}

#[tokio::test]
async fn a_mail_that_was_given_up_midway_leaves_no_connection_behind_that_the_next_would_trip_over() {
    let server = MailServer::start().await.unwrap();
    let notifier = to(&server);
    for step in [MailStep::Greeting, MailStep::Sender, MailStep::Recipient, MailStep::Data, MailStep::Body] {
        server.script([(step, MailAction::Hang)]);
        let begun = Instant::now();
        let hurried = EmailMessage { timeout: Duration::from_millis(100), ..mail(1) };
        let (category, error) = failed(notifier.send(&hurried).await);
        assert_eq!(category, FailureCategory::Timeout, "{error}");
        assert!(begun.elapsed() < Duration::from_secs(2));
        let before = server.taken().len();
        let report = notifier.send(&EmailMessage { text: format!("after {step:?}"), ..mail(2) }).await;
        assert!(is_accepted(&report), "{report:?}");
        let taken = server.taken();
        assert_eq!(taken.len(), before + 1);
        assert!(taken[before].data.contains(&format!("after {step:?}")));
    }
}

#[tokio::test]
async fn a_kept_connection_that_the_server_closed_costs_no_attempt() {
    let server = MailServer::start().await.unwrap();
    let notifier = to(&server);
    for closing in [MailAction::Close, MailAction::Reply("421 4.4.2 idle too long")] {
        assert!(is_accepted(&notifier.send(&mail(1)).await));
        server.script([(MailStep::Sender, closing)]);
        let report = notifier.send(&mail(2)).await;
        assert!(is_accepted(&report), "{report:?}");
    }
    assert_eq!((server.taken().len(), server.script_left()), (4, 0));
}

#[tokio::test]
async fn a_mail_whose_reply_was_lost_is_repeated_under_the_same_message_id() {
    let server = MailServer::start().await.unwrap();
    let notifier = to(&server);
    server.script([(MailStep::Body, MailAction::KeepAndClose)]);
    assert_eq!(failed(notifier.send(&mail(1)).await).0, FailureCategory::Network);
    assert!(is_accepted(&notifier.send(&mail(1)).await));
    let ids: Vec<_> = server.taken().iter().map(|mail| mail.header("message-id")).collect();
    assert!(ids.len() == 2 && ids[0] == ids[1] && ids[0].is_some());
}

#[tokio::test]
async fn many_mails_at_once_share_four_connections() {
    let server = MailServer::start().await.unwrap();
    let notifier = to(&server);
    let messages: Vec<_> = (0..40).map(mail).collect();
    let reports = join_all(messages.iter().map(|message| notifier.send(message))).await;
    assert!(reports.iter().all(is_accepted));
    assert_eq!(server.taken().len(), 40);
    assert!(server.open_max() <= 4, "{}", server.open_max());
}

#[tokio::test]
async fn the_connection_is_secured_by_starttls_where_it_is_offered_and_required_where_it_must_be() {
    let (root, acceptor) = certificate("127.0.0.1");
    let server = MailServer::start_with(MailTls::StartTls(acceptor), Some("shop\0p@ss")).await.unwrap();
    let url = format!("smtp://shop:p%40ss@127.0.0.1:{}?tls=required", server.port);
    let report = trusting(&url, vec![root.clone()]).send(&mail(1)).await;
    assert!(is_accepted(&report), "{report:?}");
    let taken = server.taken();
    assert!(taken[0].was_secure);
    assert_eq!(taken[0].login.as_deref(), Some("shop\0p@ss"));

    let (category, error) = failed(notifier(&url).send(&mail(1)).await);
    assert_eq!(category, FailureCategory::Tls, "{error}");
    assert!(error.contains("was not issued by a trusted authority"), "{error}");

    let plain = MailServer::start_with(MailTls::None, Some("shop\0p@ss")).await.unwrap();
    let url = format!("smtp://shop:p%40ss@127.0.0.1:{}?tls=required", plain.port);
    let (category, error) = failed(trusting(&url, vec![root]).send(&mail(1)).await);
    assert_eq!(category, FailureCategory::Tls);
    assert!(error.contains("does not support STARTTLS"), "{error}");
    assert_eq!((server.taken().len(), plain.taken().len()), (1, 0));
}

#[tokio::test]
async fn under_smtps_the_connection_is_secure_from_the_first_byte() {
    let (root, acceptor) = certificate("127.0.0.1");
    let server = MailServer::start_with(MailTls::Implicit(acceptor), None).await.unwrap();
    let url = format!("smtps://127.0.0.1:{}", server.port);
    let report = trusting(&url, vec![root]).send(&mail(1)).await;
    assert!(is_accepted(&report), "{report:?}");
    assert!(report.phases.tls.is_some() && server.taken()[0].was_secure);
    let (category, error) = failed(notifier(&url).send(&mail(1)).await);
    assert_eq!(category, FailureCategory::Tls, "{error}");
}

#[tokio::test]
async fn wrong_credentials_and_a_server_that_is_away_may_be_mended() {
    let server = MailServer::start_with(MailTls::None, Some("shop\0p@ss")).await.unwrap();
    let (category, error) = failed(notifier(&format!("smtp://shop:wrong@127.0.0.1:{}", server.port)).send(&mail(1)).await);
    assert_eq!(category, FailureCategory::ServerError);
    assert!(error.contains("did not accept our credentials: 535") && !error.contains("wrong"), "{error}");

    let nobody = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let (category, error) = failed(notifier(&format!("smtp://{nobody}")).send(&mail(1)).await);
    assert_eq!(category, FailureCategory::Network);
    assert!(error.contains("refused the connection"), "{error}");
}

#[tokio::test]
async fn a_mail_that_is_too_large_is_refused_without_a_connection() {
    let server = MailServer::start().await.unwrap();
    let report = to(&server).send(&EmailMessage { text: "x".repeat(1024 * 1024 + 1), ..mail(1) }).await;
    assert!(matches!(report.sent, Sent::Refused { category: FailureCategory::PayloadTooLarge, .. }), "{report:?}");
    assert_eq!(server.connections(), 0);
}
