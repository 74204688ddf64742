//! A notice as an e-mail: plain text, and the same as HTML that can be read in light and dark and on a phone. It loads nothing and follows nobody.

use std::fmt::Write as _;

use super::{Notice, NoticeState};
use crate::model::NoticeSeverity;

/// How far values are indented behind their names in the text.
const NAME_WIDTH: usize = 15;

/// Why somebody gets it. The same for whoever gets it, because what was sent is shown without asking whose address it was.
const REASON: &str =
    "You get this because your address is in `admin_emails` of the organization, or is the `owner_email` of an application.";

/// A mail, before it is composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailNotice {
    /// What it is about, in one line.
    pub subject: String,
    /// All of it, as plain text.
    pub text: String,
    /// The same as HTML.
    pub html: String,
}

/// Writes a notice as a mail of this sender.
pub fn write(notice: &Notice, brand: &str) -> EmailNotice {
    EmailNotice { subject: notice.subject(brand), text: as_text(notice), html: as_html(notice, brand) }
}

fn as_text(notice: &Notice) -> String {
    let mut text = format!("{}\n\n", notice.summary);
    for (name, value) in &notice.facts {
        let _ = writeln!(text, "{:NAME_WIDTH$}{value}", format!("{name}:"));
    }
    if !notice.steps.is_empty() {
        text.push_str("\nWhat to do\n");
    }
    for (index, step) in notice.steps.iter().enumerate() {
        let _ = writeln!(text, "{}. {}", index + 1, step.words);
        if let Some(request) = &step.request {
            let _ = writeln!(text, "   {request}");
        }
    }
    let _ = write!(text, "\n{REASON}\n");
    text
}

/// The styles that cannot stand at their elements. Programs that do not know them show the light page in one column.
const STYLES: &str = ":root{color-scheme:light dark;supported-color-schemes:light dark}\
    @media (prefers-color-scheme:dark){.page{background:#0f1419!important}.card{background:#1b222b!important;border-left-color:#37424f!important;border-right-color:#37424f!important;border-bottom-color:#37424f!important}\
    .strong{color:#f2f5f8!important}.text{color:#d5dce4!important}.quiet{color:#98a4b3!important}.line{border-color:#2c3641!important}\
    .code{background:#0f1419!important;color:#d5dce4!important}\
    .ended{color:#5fd08f!important}.info{color:#8ab4f8!important}.warning{color:#f0b24a!important}.critical{color:#ff8a80!important}}\
    @media (max-width:480px){.name,.value{display:block!important;width:auto!important;padding-right:0!important}\
    .name{padding-bottom:0!important;border-bottom:0!important}.value{padding-top:0!important}.inner{padding:20px 16px!important}}";

const FONT: &str = "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif";

fn as_html(notice: &Notice, brand: &str) -> String {
    let (title, label) = (escape(&notice.title), escape(notice.label));
    let (brand, Tone { class, color }) = (escape(brand), tone(notice));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"supported-color-schemes\" content=\"light dark\">\
         <title>{title}</title><style>{STYLES}</style></head>\n\
         <body class=\"page\" style=\"margin:0;padding:0;background:#eef1f4;{FONT}\">\n\
         <table role=\"presentation\" class=\"page\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" style=\"background:#eef1f4\">\
         <tr><td align=\"center\" style=\"padding:24px 12px\">\n\
         <table role=\"presentation\" class=\"card\" width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" \
         style=\"max-width:600px;background:#ffffff;border:1px solid #d9dfe6;border-top:4px solid {color};border-radius:6px;text-align:left\">\
         <tr><td class=\"inner\" style=\"padding:28px 32px\">\n\
         <p class=\"{class}\" style=\"margin:0 0 6px;font-size:13px;line-height:1.4;font-weight:600;color:{color}\">{label}</p>\n\
         <h1 class=\"strong\" style=\"margin:0 0 12px;font-size:20px;line-height:1.3;color:#14202e;overflow-wrap:anywhere\">{title}</h1>\n\
         <p class=\"text\" style=\"margin:0 0 20px;font-size:15px;line-height:1.5;color:#33404f;overflow-wrap:anywhere\">{}</p>\n",
        escape(&notice.summary)
    );
    write_facts(&mut html, notice);
    write_steps(&mut html, notice);
    let _ = write!(
        html,
        "</td></tr></table>\n<p class=\"quiet\" style=\"max-width:600px;margin:16px auto 0;font-size:12px;line-height:1.5;color:#5b6672\">\
         Sent by {brand}. {}</p>\n</td></tr></table></body></html>\n",
        escape(&REASON.replace('`', ""))
    );
    html
}

fn write_facts(html: &mut String, notice: &Notice) {
    if notice.facts.is_empty() {
        return;
    }
    html.push_str(
        "<table width=\"100%\" cellpadding=\"0\" cellspacing=\"0\" style=\"border-collapse:collapse;font-size:14px;line-height:1.45\">\n",
    );
    for (name, value) in &notice.facts {
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\" class=\"name quiet line\" style=\"width:118px;padding:7px 16px 7px 0;text-align:left;vertical-align:top;\
             font-weight:400;color:#5b6672;border-bottom:1px solid #e8ecf0\">{}</th>\
             <td class=\"value text line\" style=\"padding:7px 0;color:#14202e;vertical-align:top;overflow-wrap:anywhere;word-break:break-word;\
             border-bottom:1px solid #e8ecf0\">{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    html.push_str("</table>\n");
}

fn write_steps(html: &mut String, notice: &Notice) {
    if notice.steps.is_empty() {
        return;
    }
    html.push_str(
        "<h2 class=\"strong\" style=\"margin:24px 0 8px;font-size:16px;color:#14202e\">What to do</h2>\n\
         <ol class=\"text\" style=\"margin:0;padding-left:22px;font-size:14px;line-height:1.5;color:#33404f\">\n",
    );
    for step in &notice.steps {
        let _ = write!(html, "<li style=\"margin:0 0 8px\">{}", escape(step.words));
        if let Some(request) = &step.request {
            let _ = write!(
                html,
                "<br><code class=\"code\" style=\"display:inline-block;margin-top:4px;padding:4px 8px;border-radius:4px;background:#eef1f4;\
                 color:#14202e;font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;overflow-wrap:anywhere;word-break:break-word\">{}</code>",
                escape(request)
            );
        }
        html.push_str("</li>\n");
    }
    html.push_str("</ol>\n");
}

/// The color of a notice's label and edge. The class has the one that can be read on the dark page.
struct Tone {
    class: &'static str,
    color: &'static str,
}

/// Each color has a contrast of at least 4.5 to its page.
const fn tone(notice: &Notice) -> Tone {
    match (notice.state, notice.severity) {
        (NoticeState::Resolved, _) => Tone { class: "ended", color: "#17733f" },
        (NoticeState::Info, _) | (NoticeState::Problem, NoticeSeverity::Info) => Tone { class: "info", color: "#2b62b5" },
        (NoticeState::Problem, NoticeSeverity::Warning) => Tone { class: "warning", color: "#8f5600" },
        (NoticeState::Problem, NoticeSeverity::Critical) => Tone { class: "critical", color: "#c0352a" },
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
