//! The pages that problem types point to: `/docs/problems` and one for each type. Open to everybody; they say nothing about this server.

use std::sync::Arc;

use axum::{
    Router,
    extract::Path,
    response::{Html, IntoResponse, Response},
    routing::get,
};

use super::{
    Api,
    error::{ApiError, PAGES_PATH, ProblemKind},
};

/// The list of all pages, and each of them.
pub fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route(PAGES_PATH, get(index))
        .route(&format!("{PAGES_PATH}/"), get(index))
        .route(&format!("{PAGES_PATH}/{{code}}"), get(page))
}

async fn index() -> Html<String> {
    let row = |kind: &ProblemKind| {
        let (path, code, title) = (kind.type_path(), kind.code(), kind.title());
        format!("<li>{} <a href=\"{path}\"><code>{code}</code></a>: {title}</li>\n", kind.status().as_u16())
    };
    let rows: String = ProblemKind::ALL.iter().map(row).collect();
    Html(document("Problem types", &format!("<h1>Problem types</h1>\n<ul>\n{rows}</ul>\n")))
}

async fn page(Path(code): Path<String>) -> Response {
    match ProblemKind::with_code(&code) {
        Some(kind) => Html(document(kind.title(), &render(kind.page()))).into_response(),
        None => ApiError::new(ProblemKind::RouteNotFound, format!("there is no problem type of this name: {PAGES_PATH} lists all"))
            .into_response(),
    }
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{title}</title>\
         <style>body{{font:16px/1.5 sans-serif;max-width:44em;margin:2em auto;padding:0 1em}}</style></head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Renders what the pages use of Markdown: a heading, paragraphs, `code` and **bold**.
fn render(markdown: &str) -> String {
    let block = |block: &str| match block.strip_prefix("# ") {
        Some(heading) => format!("<h1>{}</h1>\n", inline(heading)),
        None => format!("<p>{}</p>\n", inline(block)),
    };
    markdown.split("\n\n").map(str::trim).filter(|text| !text.is_empty()).map(block).collect()
}

fn inline(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    between(&between(&escaped, "**", "strong"), "`", "code")
}

/// Puts the text between two marks into an element.
fn between(text: &str, mark: &str, element: &str) -> String {
    let part = |(n, part): (usize, &str)| if n % 2 == 1 { format!("<{element}>{part}</{element}>") } else { part.to_owned() };
    text.split(mark).enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_rendered_as_html() {
        let html = render("# A <title>\n\nStatus 409.\n\n**Why:** `a & b`\ngoes on.\n");
        assert_eq!(html, "<h1>A &lt;title&gt;</h1>\n<p>Status 409.</p>\n<p><strong>Why:</strong> <code>a &amp; b</code>\ngoes on.</p>\n");
    }

    #[test]
    fn marks_come_in_pairs_on_every_page() {
        for kind in ProblemKind::ALL {
            for mark in ["**", "`"] {
                assert_eq!(kind.page().matches(mark).count() % 2, 0, "{} {mark}", kind.code());
            }
        }
    }
}
