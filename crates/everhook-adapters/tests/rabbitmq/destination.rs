//! Deliveries to a broker.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use everhook_adapters::rabbitmq::AmqpTransport;
use everhook_core::{
    ids::OrganizationId,
    model::{FailureCategory, Report, Sent, Target},
    policy::address::AddressRules,
    ports::{OutgoingMethod, OutgoingRequest, Transport},
};
use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};
use uuid::Uuid;

use super::{
    broker::{AMPLE, Broker},
    proxy::Proxy,
};

const BODY: &[u8] = b"{\"type\":\"order.paid\",\"data\":{\"order\":4711}}";

fn transport() -> AmqpTransport {
    AmqpTransport::new(AddressRules::allowing(vec!["127.0.0.1/32".parse().unwrap()])).unwrap()
}

pub fn request(url: &str, timeout: Duration) -> OutgoingRequest {
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", "0190-abc"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", "v1,c2lnbmF0dXJl"),
        ("x-webhook-event", "order.paid"),
        ("x-custom", "grüße"),
    ];
    OutgoingRequest {
        method: OutgoingMethod::Post,
        organization: OrganizationId::from_uuid(Uuid::nil()),
        target: Arc::new(Target { written: url.to_owned(), url: url.parse().unwrap() }),
        headers: headers.into_iter().map(|(name, value)| (name.into(), Bytes::from(value))).collect(),
        body: Bytes::from_static(BODY),
        timeout,
    }
}

fn logged_in(mut request: OutgoingRequest, login: &str) -> OutgoingRequest {
    request.headers.push(("authorization".into(), Bytes::from(format!("Basic {}", STANDARD.encode(login)))));
    request
}

async fn send(transport: &AmqpTransport, url: &str) -> Report {
    transport.send(request(url, AMPLE)).await
}

pub fn assert_delivered(report: &Report) {
    assert!(matches!(&report.sent, Sent::Answered(response) if response.status == 200), "{report:?}");
}

pub fn failed(report: Report) -> (FailureCategory, String) {
    match report.sent {
        Sent::Failed { category, error, .. } => (category, error),
        answered => panic!("expected a failure, got {answered:?}"),
    }
}

#[tokio::test]
async fn a_confirmed_message_is_delivered_with_its_body_and_headers() {
    let Some(broker) = Broker::connect().await else { return };
    let queue = broker.queue("out", &[]).await;
    let url = broker.endpoint(None, &format!("routing_key={queue}"));
    let report = transport().send(logged_in(request(&url, AMPLE), "guest:guest")).await;
    assert_delivered(&report);
    assert!(report.phases.connect.is_some() && report.phases.first_byte.is_some());

    let message = broker.get(&queue).await.delivery;
    assert_eq!(message.data, BODY);
    let properties = message.properties;
    let text = |property: &Option<lapin::types::ShortString>| property.as_ref().map(ToString::to_string);
    assert_eq!(text(properties.message_id()).as_deref(), Some("0190-abc"));
    assert_eq!(text(properties.content_type()).as_deref(), Some("application/json"));
    assert_eq!(text(properties.kind()).as_deref(), Some("order.paid"));
    assert_eq!((*properties.delivery_mode(), *properties.timestamp()), (Some(2), Some(1_700_000_000)));
    let headers = properties.headers().clone().unwrap();
    let header = |name: &str| match headers.inner().get(name) {
        Some(AMQPValue::LongString(value)) => Some(value.to_string()),
        _ => None,
    };
    assert_eq!(header("webhook-signature").as_deref(), Some("v1,c2lnbmF0dXJl"));
    assert_eq!(header("x-custom").as_deref(), Some("grüße"));
    assert_eq!(header("authorization"), None, "credentials are for the broker");
}

#[tokio::test]
async fn without_a_routing_key_the_event_type_is_one() {
    let Some(broker) = Broker::connect().await else { return };
    let (queue, exchange) = (broker.queue("orders", &[]).await, broker.name("events"));
    let options = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
    broker.channel.exchange_declare(exchange.clone().into(), ExchangeKind::Topic, options, FieldTable::default()).await.unwrap();
    let bind = QueueBindOptions::default();
    broker.channel.queue_bind(queue.clone().into(), exchange.clone().into(), "order.*".into(), bind, FieldTable::default()).await.unwrap();
    assert_delivered(&send(&transport(), &broker.endpoint(None, &format!("exchange={exchange}"))).await);
    assert_eq!(broker.get(&queue).await.delivery.routing_key.as_str(), "order.paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_messages_at_once_each_gets_the_word_that_was_meant_for_it() {
    let Some(broker) = Broker::connect().await else { return };
    let (queue, exchange) = (broker.queue("orders", &[]).await, broker.name("events"));
    let options = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
    broker.channel.exchange_declare(exchange.clone().into(), ExchangeKind::Topic, options, FieldTable::default()).await.unwrap();
    let bind = QueueBindOptions::default();
    broker.channel.queue_bind(queue.clone().into(), exchange.clone().into(), "order.*".into(), bind, FieldTable::default()).await.unwrap();
    let (transport, url) = (Arc::new(transport()), broker.endpoint(None, &format!("exchange={exchange}")));
    let mut sending = tokio::task::JoinSet::new();
    for number in 0..300 {
        let (transport, mut request) = (transport.clone(), request(&url, AMPLE));
        let leads_somewhere = number % 3 > 0;
        let event_type = if leads_somewhere { "order.paid" } else { "user.created" };
        request.headers.iter_mut().find(|(name, _)| name == "x-webhook-event").unwrap().1 = Bytes::from(event_type);
        sending.spawn(async move { (leads_somewhere, transport.send(request).await) });
    }
    for (leads_somewhere, report) in sending.join_all().await {
        assert_eq!(matches!(report.sent, Sent::Answered(_)), leads_somewhere, "{report:?}");
    }
    for _ in 0..200 {
        broker.get(&queue).await;
    }
    assert!(broker.try_get(&queue).await.is_none());
}

#[tokio::test]
async fn what_the_broker_does_not_take_is_a_failure_that_says_why() {
    let Some(broker) = Broker::connect().await else { return };
    let transport = transport();
    let full = broker
        .queue("full", &[("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", AMQPValue::LongString("reject-publish".into()))])
        .await;
    broker.put(&full, "first", b"{}").await;
    let cases = [
        (
            "routing_key=no-such-queue".to_owned(),
            FailureCategory::ClientError,
            "no queue is bound to the exchange `` for the routing key `no-such-queue`",
        ),
        (
            "exchange=no-such-exchange".to_owned(),
            FailureCategory::ClientError,
            "the broker answered 404: NOT_FOUND - no exchange 'no-such-exchange'",
        ),
        (format!("routing_key={full}"), FailureCategory::ServerError, "the broker did not accept the message"),
    ];
    for (query, category, words) in cases {
        for _ in 0..2 {
            let (found, error) = failed(send(&transport, &broker.endpoint(None, &query)).await);
            assert!(found == category && error.contains(words), "{query}: {found:?} {error}");
        }
    }
    let (category, error) = failed(transport.send(logged_in(request(&broker.endpoint(None, "exchange=x"), AMPLE), "guest:wrong")).await);
    assert!(category == FailureCategory::ClientError && error.contains("ACCESS_REFUSED"), "{category:?} {error}");
    let (category, error) = failed(send(&transport, &broker.endpoint(None, "exchange=x").replace("%2f", "nowhere")).await);
    assert!(category == FailureCategory::ClientError && error.contains("vhost"), "{category:?} {error}");
}

#[tokio::test]
async fn messages_for_one_url_share_a_link_and_a_lost_one_is_replaced() {
    let Some(broker) = Broker::connect().await else { return };
    let queue = broker.queue("many", &[]).await;
    let proxy = Proxy::to(broker.url.port().unwrap()).await;
    let url = broker.endpoint(Some(proxy.port), &format!("routing_key={queue}"));
    let transport = Arc::new(transport());
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (transport, url) = (transport.clone(), url.clone());
        sending.spawn(async move { send(&transport, &url).await });
    }
    sending.join_all().await.iter().for_each(assert_delivered);
    assert_eq!(proxy.taken(), 1);
    proxy.cut();
    assert_delivered(&send(&transport, &url).await);
    assert_eq!(proxy.taken(), 2);
    for _ in 0..51 {
        broker.get(&queue).await;
    }
    assert!(broker.try_get(&queue).await.is_none());
}

#[tokio::test]
async fn a_broker_that_is_away_or_silent_is_a_failure_in_time() {
    if Broker::connect().await.is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("amqp://127.0.0.1:{port}/?exchange=x");
    let silent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The connection is closed when nobody waits for it any more, and takes its thread with it.
        stream.read_to_end(&mut Vec::new()).await
    });
    let transport = transport();
    let (category, error) = failed(transport.send(request(&url, Duration::from_millis(200))).await);
    assert!(category == FailureCategory::Timeout && error.contains("did not confirm within 200 ms"), "{error}");
    tokio::time::timeout(AMPLE, silent).await.expect("the connection is closed").unwrap().unwrap();
    let (category, error) = failed(send(&transport, &url).await);
    assert!(category == FailureCategory::Network && error.contains("refused the connection"), "{error}");
}

#[tokio::test]
async fn a_private_address_is_refused_as_for_any_endpoint() {
    let transport = AmqpTransport::new(AddressRules::public_only()).unwrap();
    for host in ["127.0.0.1:5672", "0x7f.1", "[::1]", "localhost"] {
        let (category, error) = failed(send(&transport, &format!("amqp://{host}/?exchange=x")).await);
        assert!(category == FailureCategory::BlockedAddress && error.contains("loopback"), "{host}: {error}");
    }
}
