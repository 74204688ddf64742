//! What a node is connected to: its database, Redis, RabbitMQ and the mail server. Each is connected to once.

use std::time::Duration;

use everhook_adapters::{
    postgres::{PostgresSettings, PostgresStore},
    redis::{self, RedisSettings},
    smtp::SmtpNotifier,
    system::SystemClock,
};
use everhook_core::{
    model::{EmailAddress, Sent},
    ports::{EmailMessage, Notifier as _, Offset},
};
use uuid::Uuid;

use super::{
    report::{Check, Report},
    server::now,
    store_name,
};
use crate::config::{Config, EmailConfig};

/// How long a service may take: a person waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How far a node's clock may be from the database's before it sends nothing.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(5);
/// How far before somebody should look.
const CLOCKS_AGREE_WITHIN: Duration = Duration::from_secs(1);

pub(super) async fn examine(config: &Config, mail_to: Option<EmailAddress>, report: &mut Report) {
    if config.database.is_some() {
        database(config, report).await;
    }
    if let Some(url) = &config.redis {
        report.add(redis(config, url.expose()).await);
    }
    #[cfg(feature = "amqp")]
    if let Some(url) = config.amqp_hints.as_ref().or(config.amqp_source.as_ref().map(|source| &source.url)) {
        report.add(match everhook_adapters::rabbitmq::check(url, ANSWER_TIMEOUT).await {
            Ok(()) => Check::ok("rabbitmq", "connects"),
            Err(words) => Check::problem(
                "rabbitmq",
                words,
                "start it, or correct `amqp`; until then, the API and deliveries over HTTP work without it",
            ),
        });
    }
    match &config.email {
        Some(email) => mail(email, mail_to, report).await,
        None => report.add(Check::skipped("mail server", "not configured: no e-mails are sent, for example about disabled endpoints")),
    }
}

async fn database(config: &Config, report: &mut Report) {
    let name = store_name(config);
    let store = match open(config).await {
        Ok(store) => store,
        Err(error) => return report.add(Check::problem("database", format!("{name}: {error:#}"), "start it, or correct `database`")),
    };
    report.add(Check::ok("database", format!("{name} connects")));
    match store.clock_offset(&SystemClock::new()).await {
        Ok(offset) => report.add(database_clock(offset)),
        Err(error) => report.add(Check::warning("database clock", error.to_string(), "see the log of the database")),
    }
}

/// The configured database, opened for reading.
pub(super) async fn open(config: &Config) -> anyhow::Result<PostgresStore> {
    let url = config.database.as_ref().map(|url| url.expose().clone()).unwrap_or_default();
    let settings = PostgresSettings { url, node: "doctor".to_owned(), pool: config.pool.clone() };
    Ok(tokio::time::timeout(ANSWER_TIMEOUT, PostgresStore::look(&settings)).await??)
}

fn database_clock(offset: Option<Offset>) -> Check {
    const NAME: &str = "database clock";
    let Some(offset) = offset else { return Check::skipped(NAME, "the database answered too slowly to compare the clocks") };
    let apart = offset.apart_from(Offset::NONE);
    let finding = format!("the clocks of this machine and the database are {:.1} s apart", apart.as_secs_f64());
    match apart {
        apart if apart > CLOCKS_APART_MAX => {
            Check::problem(NAME, finding, "synchronize both with NTP: a node whose clock is wrong sends nothing")
        }
        apart if apart > CLOCKS_AGREE_WITHIN => Check::warning(NAME, finding, "synchronize both with NTP"),
        _ => Check::ok(NAME, "agrees with this machine's clock"),
    }
}

async fn redis(config: &Config, url: &str) -> Check {
    const NAME: &str = "redis";
    let authorities = match config.redis_ca_file.as_ref().map(std::fs::read).transpose() {
        Ok(authorities) => authorities,
        Err(error) => return Check::problem(NAME, format!("cannot read redis_ca_file: {error}"), "correct `redis_ca_file`"),
    };
    let settings = RedisSettings { url: url.to_owned(), authorities, installation: Uuid::nil() };
    match redis::check(&settings, ANSWER_TIMEOUT).await {
        Ok(()) => Check::ok(NAME, "answers"),
        Err(error) => {
            Check::problem(NAME, error.to_string(), "start it, or correct `redis`; until then, limits are counted in the database")
        }
    }
}

async fn mail(email: &EmailConfig, mail_to: Option<EmailAddress>, report: &mut Report) {
    const ADVICE: &str = "correct `smtp`, or see the log of the mail server; until then, mail is retried";
    let notifier = match SmtpNotifier::new(email.server.clone(), email.from.clone(), Vec::new()) {
        Ok(notifier) => notifier,
        Err(error) => return report.add(Check::problem("mail server", error.to_string(), ADVICE)),
    };
    match notifier.check(ANSWER_TIMEOUT).await {
        Ok(()) => report.add(Check::ok("mail server", "connects, and accepts the login if one is configured; no mail was sent")),
        Err(words) => return report.add(Check::problem("mail server", words, ADVICE)),
    }
    let Some(to) = mail_to else { return };
    let shown = to.to_string();
    report.add(match notifier.send(&message(to)).await.sent {
        Sent::Answered(response) if (200..300).contains(&response.status) => {
            Check::ok("mail", format!("the mail server accepted a test mail to {shown}"))
        }
        Sent::Answered(response) => Check::problem("mail", format!("the mail server replied {} to a test mail", response.status), ADVICE),
        Sent::Refused { error, .. } | Sent::Failed { error, .. } => Check::problem("mail", error, ADVICE),
        other => Check::problem("mail", format!("{other:?}"), ADVICE),
    });
}

fn message(to: EmailAddress) -> EmailMessage {
    EmailMessage {
        id: Uuid::now_v7(),
        to,
        subject: "Everhook: test mail".to_owned(),
        text: "This mail was sent by `everhook doctor --mail-to`. If you can read it, Everhook can send you notifications.\n".to_owned(),
        html: None,
        created_at: now(),
        timeout: ANSWER_TIMEOUT,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::report::Verdict, *};

    #[test]
    fn a_clock_that_is_too_far_from_the_databases_is_a_problem() {
        for (millis, expected) in
            [(0, Verdict::Ok), (-900, Verdict::Ok), (1_500, Verdict::Warning), (-1_500, Verdict::Warning), (6_000, Verdict::Problem)]
        {
            assert_eq!(database_clock(Some(Offset { micros: millis * 1_000 })).verdict, expected, "{millis}");
        }
        assert_eq!(database_clock(None).verdict, Verdict::Skipped);
    }
}
