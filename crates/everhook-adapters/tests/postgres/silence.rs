//! A server that is there and says nothing: no connection breaks, and no answer comes.

use std::{
    sync::Arc,
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

/// A wire on which everything can be held up.
struct Wire {
    url: Url,
    is_held: Arc<watch::Sender<bool>>,
}

impl Wire {
    async fn to(server: &str) -> Self {
        let mut url: Url = server.parse().unwrap();
        let address = (url.host_str().unwrap().to_owned(), url.port().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
        url.set_host(Some("127.0.0.1")).unwrap();
        let is_held = Arc::new(watch::Sender::new(false));
        let held = is_held.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = TcpStream::connect(&address).await.unwrap().into_split();
                tokio::spawn(carry(from_client, to_server, held.subscribe()));
                tokio::spawn(carry(from_server, to_client, held.subscribe()));
            }
        });
        Self { url, is_held }
    }

    fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }
}

async fn carry(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, mut is_held: watch::Receiver<bool>) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if is_held.wait_for(|is_held| !is_held).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
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
