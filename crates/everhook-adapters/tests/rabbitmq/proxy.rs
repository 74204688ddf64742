//! A wire that can be cut: whatever goes to the broker over it is lost at that moment.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

pub struct Proxy {
    pub port: u16,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    taken: Arc<AtomicUsize>,
}

impl Proxy {
    /// Forwards connections to this port of the loopback address.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let (connections, taken) = (Arc::<Mutex<Vec<AbortHandle>>>::default(), Arc::<AtomicUsize>::default());
        tokio::spawn({
            let (connections, taken) = (connections.clone(), taken.clone());
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    taken.fetch_add(1, Ordering::SeqCst);
                    let task = tokio::spawn(forward(client, SocketAddr::from(([127, 0, 0, 1], port))));
                    connections.lock().unwrap().push(task.abort_handle());
                }
            }
        });
        Self { port: own_port, connections, taken }
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        self.connections.lock().unwrap().drain(..).for_each(|connection| connection.abort());
    }

    /// How many connections there have been.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

async fn forward(mut client: TcpStream, to: SocketAddr) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
}
