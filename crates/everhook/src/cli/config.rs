//! `everhook config`: what is in force, and where each value came from.

use clap::Args;
use serde_json::json;

use crate::config::{ServeArgs, Setting};

/// What `everhook config` takes: the flags of `serve`, to see what they would do.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Prints every setting.
///
/// # Errors
/// Lists everything that is wrong with the configuration.
pub fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let settings = args.serve.load()?.settings;
    let text = if args.json { as_json(&settings) } else { as_table(&settings) };
    anstream::println!("{text}");
    Ok(())
}

fn as_json(settings: &[Setting]) -> String {
    let entry = |setting: &Setting| (setting.name.to_owned(), json!({ "value": setting.shown(), "source": setting.source() }));
    let entries: serde_json::Map<_, _> = settings.iter().map(entry).collect();
    serde_json::to_string_pretty(&entries).expect("texts are JSON")
}

fn as_table(settings: &[Setting]) -> String {
    let widest = |width: fn(&Setting) -> usize| settings.iter().map(width).max().unwrap_or_default();
    let names = widest(|setting| setting.name.len());
    let values = widest(|setting| shown(setting).len());
    let line = |setting: &Setting| format!("{:names$}  {:values$}  {}", setting.name, shown(setting), setting.source());
    settings.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn shown(setting: &Setting) -> &str {
    setting.shown().unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_printed_with_its_source_and_secrets_are_hidden() {
        let key = format!("eh_{}", "s".repeat(30));
        let args = ServeArgs { listen: Some("127.0.0.1:9".to_owned()), admin_key: Some(key), ..ServeArgs::default() };
        let settings = args.load_from([]).unwrap().settings;
        let table = as_table(&settings);
        assert!(table.contains("127.0.0.1:9") && table.contains("--listen") && table.contains("default"), "{table}");
        assert!(!table.contains("sss") && table.contains("***"), "{table}");
        let json: serde_json::Value = serde_json::from_str(&as_json(&settings)).unwrap();
        assert_eq!(json["listen"], serde_json::json!({ "value": "127.0.0.1:9", "source": "--listen" }));
        assert_eq!(json["admin_key"]["value"], "***");
    }
}
