//! Two organizations with something of everything, and the roles that read their reports.

use std::collections::BTreeSet;

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use url::Url;
use uuid::Uuid;

use crate::{
    database::{execute, execute_apart, server},
    postgres::given::{Given, NOW},
};

/// The organizations of `an_organization.sql`, by their digits, with how much they have.
const ORGANIZATIONS: [(char, u32); 2] = [('a', 2), ('b', 3)];

/// Two organizations, and a role for each.
pub struct Reports {
    pub owner: Client,
    pub readers: [Reader; 2],
    pub given: Given,
    // Dropped last: a role that has rights in a database cannot be dropped before it.
    _logins: [Login; 2],
}

impl Reports {
    pub async fn new() -> Self {
        let given = Given::new().await;
        given.backing.node().await.make_partitions(NOW).await.unwrap();
        let owner = connect(&given.backing.database()).await;
        let logins = [Login::create("").await, Login::create("").await];
        let mut readers = Vec::new();
        for ((digit, rows), login) in ORGANIZATIONS.into_iter().zip(&logins) {
            given.tamper(&filling(digit, rows)).await;
            grant(&owner, &login.name, &organization(digit)).await.unwrap();
            let address = login.at(&given.backing.database());
            let client = connect(&address).await;
            readers.push(Reader { name: login.name.clone(), organization: organization(digit), client, address });
        }
        let readers = readers.try_into().unwrap_or_else(|_| panic!("there are two"));
        Self { owner, readers, given, _logins: logins }
    }
}

/// A role that reads reports, logged in.
pub struct Reader {
    pub name: String,
    pub organization: String,
    pub client: Client,
    /// Where it logs in.
    pub address: Url,
}

impl Reader {
    /// The columns of a table that it may read.
    pub async fn columns(&self, table: &str) -> BTreeSet<String> {
        let columns = format!(
            "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped
            AND has_column_privilege(attrelid, attnum, 'SELECT')"
        );
        names(&self.client, &columns).await
    }

    pub async fn count(&self, from: &str) -> i64 {
        self.client.query_one(&format!("SELECT count(*) FROM {from}"), &[]).await.unwrap().get(0)
    }

    /// The server refuses it for want of a right, and for no other reason.
    pub async fn is_refused(&self, sql: &str) {
        let because = self.error_of(sql).await;
        let refused = ["permission denied", "must be owner", "must be superuser", "must be member", "row-level security"];
        assert!(refused.iter().any(|words| because.contains(words)), "{sql}: {because}");
    }

    /// Why the server does not do it.
    pub async fn error_of(&self, sql: &str) -> String {
        let error = self.client.simple_query(sql).await.err().unwrap_or_else(|| panic!("{sql}: it was done"));
        let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
        error.message().to_owned()
    }
}

/// A role that can log in. It goes when this is dropped.
pub struct Login {
    pub name: String,
}

impl Login {
    pub async fn create(rights: &str) -> Self {
        let name = format!("everhook_test_{}", Uuid::now_v7().simple());
        execute(&server(), &format!("CREATE ROLE {name} LOGIN PASSWORD 'secret' {rights}")).await;
        Self { name }
    }

    /// A database's address for this role. It looks for tables among the reports.
    pub fn at(&self, database: &Url) -> Url {
        let mut url = database.clone();
        url.set_username(&self.name).unwrap();
        url.set_password(Some("secret")).unwrap();
        url.set_query(Some("options=-c%20search_path%3Deverhook_reports"));
        url
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        execute_apart(server(), format!("DROP ROLE {}", self.name));
    }
}

/// The statements that make an organization with so many of everything.
pub fn filling(digit: char, rows: u32) -> String {
    include_str!("an_organization.sql").replace(":rows", &rows.to_string()).replace(":o", &digit.to_string())
}

pub fn organization(digit: char) -> String {
    format!("018bcfe5-6800-7000-8000-{digit}00000000000")
}

pub async fn grant(owner: &Client, login: &str, organization: &str) -> Result<(), String> {
    let granted = owner.batch_execute(&format!("SELECT everhook.everhook_grant_reports('{login}', '{organization}')")).await;
    granted.map_err(|error| error.as_db_error().expect("the server says why").message().to_owned())
}

pub async fn connect(database: &Url) -> Client {
    let (client, connection) = tokio_postgres::connect(database.as_str(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The first column of each row, as text.
pub async fn names(client: &Client, sql: &str) -> BTreeSet<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).expect("a value").to_owned()),
        _ => None,
    });
    rows.collect()
}
