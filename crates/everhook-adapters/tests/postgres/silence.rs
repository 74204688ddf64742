//! A server that is there and says nothing: no connection breaks, and no answer comes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_core::ports::{EventStore, Leases, NewEvent, Recorded, Roles, StoreError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
};
use url::Url;

use crate::postgres::given::Given;

/// A wire on which everything can be held up, or everything on the connections that were made until then.
struct Wire {
    url: Url,
    /// How many connections were made.
    made: Arc<AtomicUsize>,
    /// How many of them, from the first on, are held up.
    held: Arc<watch::Sender<usize>>,
}

impl Wire {
    async fn to(server: &str) -> Self {
        let mut url: Url = server.parse().unwrap();
        let address = (url.host_str().unwrap().to_owned(), url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        let (made, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(watch::Sender::new(0)));
        let (counted, holds) = (made.clone(), held.clone());
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::SeqCst);
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = TcpStream::connect(&address).await.unwrap().into_split();
                tokio::spawn(carry(number, from_client, to_server, holds.subscribe()));
                tokio::spawn(carry(number, from_server, to_client, holds.subscribe()));
            }
        });
        Self { url, made, held }
    }

    fn hold(&self, is_held: bool) {
        self.held.send_replace(if is_held { usize::MAX } else { 0 });
    }

    /// Holds up the connections that were made until now, and no others.
    fn hold_made(&self) {
        self.held.send_replace(self.made.load(Ordering::SeqCst));
    }
}

async fn carry(number: usize, mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, mut held: watch::Receiver<usize>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if held.wait_for(|held| *held <= number).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

async fn record(node: &PostgresStore, event: NewEvent) -> Result<Recorded, StoreError> {
    node.record(vec![event]).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up_within_seconds_and_used_again_when_it_speaks() {
    let given = Given::new().await;
    let wire = Wire::to(&given.backing.url()).await;
    let node = PostgresStore::open(&PostgresSettings { url: wire.url.clone().into(), node: "node".to_owned(), pool: Default::default() })
        .await
        .unwrap();
    node.begin(Roles::ALL).await.unwrap();
    let (first, second, third) = (given.event(&[]).await, given.event(&[]).await, given.event(&[]).await);
    assert!(matches!(record(&node, first).await, Ok(Recorded::Accepted { .. })));
    // When the server falls silent.
    wire.hold(true);
    let begun = Instant::now();
    let (published, renewed) = tokio::join!(record(&node, second), async { (node.renew().await, begun.elapsed()) });
    // Then nobody waits for long: the lease is the first to know.
    assert!(matches!(published, Err(StoreError::Unavailable(_))), "{published:?}");
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(matches!(renewed.0, Err(StoreError::Unavailable(_))) && renewed.1 < Duration::from_secs(5), "{renewed:?}");
    // And when it speaks again, all is as before.
    wire.hold(false);
    assert!(matches!(record(&node, third).await, Ok(Recorded::Accepted { .. })));
    node.renew().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_that_fell_silent_holds_up_nobody_but_those_who_wait_for_it() {
    let given = Given::new().await;
    let wire = Wire::to(&given.backing.url()).await;
    let node = PostgresStore::open(&PostgresSettings { url: wire.url.clone().into(), node: "node".to_owned(), pool: Default::default() })
        .await
        .unwrap();
    let other = given.another_application().await;
    let (first, second) = (given.event(&[]).await, given.event(&[]).await);
    let others = [given.event_of(other, &[]).await, given.event_of(other, &[]).await];
    assert!(matches!(record(&node, first).await, Ok(Recorded::Accepted { .. })));
    // When the connection that records has fallen silent, and an event is on its way over it.
    wire.hold_made();
    let lost = record(&node, second);
    let behind = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        for event in others {
            assert!(matches!(record(&node, event).await, Ok(Recorded::Accepted { .. })));
        }
        begun.elapsed()
    };
    let (lost, took) = tokio::join!(lost, behind);
    // Then those behind it are recorded over another, before any of them gives up.
    assert!(took < Duration::from_millis(2_500), "{took:?}");
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
}
