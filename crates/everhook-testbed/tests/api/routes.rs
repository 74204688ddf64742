//! The routes that the served OpenAPI document describes, for tests that go through all of them: a new route is never forgotten.

use http::{Method, StatusCode};
use serde_json::Value;

use crate::api::client::Server;

/// Routes that anybody may ask.
const OPEN: [&str; 3] = ["/", "/healthz", "/readyz"];

/// One operation of the document.
#[derive(Clone)]
pub struct Route {
    pub method: Method,
    /// As the document writes it, with `{id}` for what is named.
    pub path: String,
    /// The scope that it says it needs.
    pub scope: String,
    /// The body that it gives as an example; empty if it takes none.
    pub body: String,
    /// What it answers when all goes well; publishing has a second one, for what was published before.
    pub success: StatusCode,
    /// The names of its query parameters.
    pub queries: Vec<String>,
}

/// Other names of routes, which the document leaves out.
const ALIASES: [(&str, &str); 5] = [
    ("/v1/endpoints", "/v1/webhooks"),
    ("/v1/endpoints", "/v1/subscriptions"),
    ("/v1/dlq", "/v1/dead-letters"),
    ("/v1/operations/{id}", "/v1/dlq/batch-operations/{id}"),
    ("/v1/operations/{id}", "/v1/dead-letters/batch-operations/{id}"),
];

impl Route {
    /// The same route under its other names.
    fn aliases(&self) -> Vec<Self> {
        let renamed = |(name, alias): (&str, &str)| {
            let rest = self.path.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
            Some(Self { path: format!("{alias}{rest}"), ..self.clone() })
        };
        ALIASES.into_iter().filter_map(renamed).collect()
    }

    /// What stands before each `{…}` of the path, which tells what is named there.
    pub fn named(&self) -> Vec<&str> {
        let segments: Vec<&str> = self.path.split('/').collect();
        segments.windows(2).filter(|pair| pair[1].starts_with('{')).map(|pair| pair[0]).collect()
    }

    /// The path with its first thing named. A second one is left for the caller to name.
    pub fn naming(&self, name: &str) -> String {
        self.path.replace("{id}", name)
    }
}

/// Every route that needs a key. A route that says neither which scope it needs nor that it is open fails the test.
pub async fn routes(server: &Server) -> Vec<Route> {
    let document = server.get("/openapi.json").await.expect(200);
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if OPEN.contains(&path.as_str()) {
                continue;
            }
            let scope = operation["security"][0]["api_key"][0].as_str();
            let scope = scope.unwrap_or_else(|| panic!("{method} {path} does not say which scope it needs")).to_owned();
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let queries = parameters.iter().filter(|parameter| parameter["in"] == "query");
            let queries = queries.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect();
            let (method, path) = (method.to_uppercase().parse().unwrap(), path.clone());
            routes.push(Route { method, path, scope, body: example(&document, operation), success: success(operation), queries });
        }
    }
    let aliases: Vec<Route> = routes.iter().flat_map(Route::aliases).collect();
    routes.extend(aliases);
    assert!(routes.len() > 50, "the document lists {} routes", routes.len());
    routes
}

/// The largest 2xx: where an operation has two, the smaller one says that nothing new came of it.
fn success(operation: &Value) -> StatusCode {
    let statuses = operation["responses"].as_object().unwrap().keys().map(|status| status.parse::<u16>().unwrap());
    let largest = statuses.filter(|status| (200..300).contains(status)).max().expect("an operation can succeed");
    StatusCode::from_u16(largest).unwrap()
}

/// The example of an operation's body; an empty object where it has none.
fn example(document: &Value, operation: &Value) -> String {
    let content = &operation["requestBody"]["content"]["application/json"];
    if content.is_null() {
        return String::new();
    }
    let own = &content["example"];
    let example = if own.is_null() { resolve(document, &content["schema"]).map(|schema| &schema["example"]) } else { Some(own) };
    example.filter(|example| !example.is_null()).map_or_else(|| "{}".to_owned(), Value::to_string)
}

/// The schema itself where it is a reference, alone or as one of two with null.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let one_of = schema["oneOf"].as_array().and_then(|options| options.iter().find(|option| option["$ref"].is_string()));
    let schema = one_of.unwrap_or(schema);
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')),
        None => Some(schema),
    }
}
