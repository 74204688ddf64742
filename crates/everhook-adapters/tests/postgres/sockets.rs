//! A server on the same machine, reached by a socket in a folder.

use everhook_adapters::postgres::{PostgresSettings, PostgresStore};
use everhook_core::ports::Changes as _;
use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UnixListener},
};
use url::Url;

use crate::postgres::given::Given;

#[tokio::test]
async fn a_database_is_reached_by_the_socket_of_its_server() {
    let given = Given::new().await;
    let server: Url = given.backing.url().parse().unwrap();
    // Given a socket as a server on port 7 has it.
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join(".s.PGSQL.7")).unwrap();
    let address = (server.host_str().unwrap().to_owned(), server.port().unwrap_or(5432));
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let (user, password) = (server.username(), server.password().map(|password| format!("&password={password}")).unwrap_or_default());
    let url = format!("postgres://{}?host={}&port=7&user={user}{password}", server.path(), folder.path().display());
    let node = PostgresStore::open(&PostgresSettings { url, node: "node".to_owned(), pool: Default::default() }).await.unwrap();
    node.newest().await.unwrap();
}
