//! A wire that can be cut: whatever goes to the broker over it is lost at that moment.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::AbortHandle,
};

pub struct Proxy {
    pub port: u16,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    taken: Arc<AtomicUsize>,
    is_blocked: Arc<AtomicBool>,
    is_stalled: watch::Sender<bool>,
}

impl Proxy {
    /// Forwards connections to this port of the loopback address.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let (connections, taken) = (Arc::<Mutex<Vec<AbortHandle>>>::default(), Arc::<AtomicUsize>::default());
        let (is_blocked, is_stalled) = (Arc::<AtomicBool>::default(), watch::Sender::new(false));
        tokio::spawn({
            let (connections, taken) = (connections.clone(), taken.clone());
            let (is_blocked, is_stalled) = (is_blocked.clone(), is_stalled.clone());
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    taken.fetch_add(1, Ordering::SeqCst);
                    if is_blocked.load(Ordering::SeqCst) {
                        continue;
                    }
                    let task = tokio::spawn(forward(client, SocketAddr::from(([127, 0, 0, 1], port)), is_stalled.subscribe()));
                    connections.lock().unwrap().push(task.abort_handle());
                }
            }
        });
        Self { port: own_port, connections, taken, is_blocked, is_stalled }
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        self.connections.lock().unwrap().drain(..).for_each(|connection| connection.abort());
    }

    /// Cuts every connection, and each that is made from now on.
    pub fn block(&self) {
        self.is_blocked.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Lets new connections through again.
    pub fn unblock(&self) {
        self.is_blocked.store(false, Ordering::SeqCst);
    }

    /// Keeps every connection open and lets nothing through any more, for ever.
    pub fn stall(&self) {
        self.is_stalled.send_replace(true);
    }

    /// How many connections there have been.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

async fn forward(mut client: TcpStream, to: SocketAddr, mut is_stalled: watch::Receiver<bool>) {
    let mut server = TcpStream::connect(to).await.unwrap();
    let stalled = async { drop(is_stalled.wait_for(|is_stalled| *is_stalled).await) };
    tokio::select! {
        () = stalled => std::future::pending().await,
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
    }
}
