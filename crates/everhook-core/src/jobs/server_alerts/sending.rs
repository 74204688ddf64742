//! Sends reports about the server to administrators, directly: by e-mail, to a Slack URL, to PagerDuty. Each has a queue of its own, so that one that hangs does
//! not hold the others up. In order, as well as it can, and never through the store.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture, future::join_all};
use serde_json::Value;
use tokio::sync::mpsc;

use super::ServerAlertSettings;
use crate::{
    ids::{EventId, OrganizationId},
    line::{
        Line,
        service::{OpenedService, ServiceEvent, send_opened},
    },
    model::{ChannelCredentials, EmailAddress, Report, Secret, Sent, ServiceKind},
    policy::notice,
    ports::{Alert, EmailMessage, Notifier},
    time::Timestamp,
};

/// How many notices wait for one channel. There are eight rules, and each is reported at most twice in an outage.
const WAITING_MAX: usize = 64;

/// How often a notice is tried again, and after which delays; the last one holds for all that follow: two hours in all.
const TRIES_MAX: usize = 28;
const DELAYS: [Duration; 5] =
    [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30), Duration::from_secs(120), Duration::from_secs(300)];

/// How long the mail server may take for one mail.
const MAIL_TIMEOUT: Duration = Duration::from_secs(30);

/// A report as it is sent.
#[derive(Clone, Debug)]
pub(super) struct ServerNotice {
    /// What it says, as an operational event would.
    pub alert: Alert,
    /// When it was noticed.
    pub at: Timestamp,
    /// Whom mail goes to.
    pub admins: Vec<EmailAddress>,
}

/// The queues of all channels.
pub(super) struct Queues {
    queues: Vec<mpsc::Sender<Arc<ServerNotice>>>,
    has_mail: bool,
}

impl Queues {
    /// Puts a notice into each queue that has room.
    pub fn put(&self, notice: ServerNotice) {
        let notice = Arc::new(notice);
        for queue in &self.queues {
            if queue.try_send(notice.clone()).is_err() {
                tracing::warn!("too many alerts about the server wait for a channel; this one is only in the log");
            }
        }
    }

    /// Whether any channel leads to a person.
    pub fn reach_somebody(&self, admins: &[EmailAddress]) -> bool {
        self.queues.len() > usize::from(self.has_mail) || (self.has_mail && !admins.is_empty())
    }
}

/// Makes a queue for each channel that is set up, and the work that empties them.
pub(super) fn start<'a>(line: &'a Line, settings: &ServerAlertSettings) -> (Queues, BoxFuture<'a, ()>) {
    let (mut queues, mut work) = (Vec::new(), Vec::new());
    let mut add = |channel| {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        queues.push(queue);
        work.push(empty(line, channel, waiting));
    };
    let notifier = line.ports.notifier.as_deref();
    if let Some(notifier) = notifier {
        add(Channel::Mail(notifier));
    }
    let service = |kind, target| {
        let credentials = ChannelCredentials { target: Secret::new(target), signing_secret: None };
        Channel::Service(settings.organization, OpenedService { kind, name: "server", credentials })
    };
    if let Some(url) = &settings.slack_url {
        add(service(ServiceKind::Slack, url.expose().written.clone()));
    }
    if let Some(key) = &settings.pagerduty_key {
        add(service(ServiceKind::PagerDuty, key.expose().clone()));
    }
    (Queues { queues, has_mail: notifier.is_some() }, join_all(work).map(drop).boxed())
}

/// A way to a person.
enum Channel<'a> {
    Mail(&'a dyn Notifier),
    Service(OrganizationId, OpenedService<'static>),
}

/// What came of a try.
enum Tried {
    Taken,
    /// It may be taken later.
    Later(String),
    /// It is never taken.
    Never(String),
}

/// One message to one recipient.
enum Message<'a> {
    Mail(&'a dyn Notifier, EmailMessage),
    Event(OrganizationId, &'a OpenedService<'static>),
}

async fn empty(line: &Line, channel: Channel<'_>, mut waiting: mpsc::Receiver<Arc<ServerNotice>>) {
    while let Some(notice) = waiting.recv().await {
        match &channel {
            Channel::Mail(notifier) => {
                let mut mails = Vec::new();
                for admin in &notice.admins {
                    if let Some(mail) = mail(line, &notice, admin) {
                        mails.push(send_until_taken(line, &notice, Message::Mail(*notifier, mail)));
                    }
                }
                join_all(mails).await;
            }
            Channel::Service(organization, service) => send_until_taken(line, &notice, Message::Event(*organization, service)).await,
        }
    }
}

/// Tries it again and again, for two hours at the most. What is not taken until then is in the log, and in the store once that answers.
async fn send_until_taken(line: &Line, notice: &ServerNotice, message: Message<'_>) {
    let (clock, channel) = (&line.ports.clock, message.channel());
    for try_number in 0..TRIES_MAX {
        let error = match message.send(line, notice).await {
            Tried::Taken => return line.count_notification(&notice.alert.event_type),
            Tried::Never(error) => return tracing::error!(channel, "an alert about the server was refused: {error}"),
            Tried::Later(error) => error,
        };
        if try_number == 0 {
            tracing::warn!(channel, "cannot send an alert about the server; it is tried again: {error}");
        }
        clock.sleep_until(clock.now() + DELAYS[try_number.min(DELAYS.len() - 1)]).await;
    }
    tracing::error!(channel, "an alert about the server could not be sent for two hours; it is only in the log");
}

impl Message<'_> {
    fn channel(&self) -> &'static str {
        match self {
            Self::Mail(..) => "e-mail",
            Self::Event(_, service) => service.kind.title(),
        }
    }

    async fn send(&self, line: &Line, notice: &ServerNotice) -> Tried {
        match self {
            Self::Mail(notifier, mail) => tried(notifier.send(mail).await),
            Self::Event(organization, service) => {
                let ServerNotice { alert, at, .. } = notice;
                let id = EventId::from_uuid(alert.id);
                let event = ServiceEvent { id, event_type: &alert.event_type, data: &alert.data, at: *at, attempt: None };
                tried(send_opened(line, *organization, service, &event).await)
            }
        }
    }
}

fn mail(line: &Line, notice: &ServerNotice, to: &EmailAddress) -> Option<EmailMessage> {
    let data: Value = serde_json::from_slice(&notice.alert.data).unwrap_or_default();
    let written = notice::email::write(&notice::of_event(&notice.alert.event_type, &data)?, &line.notifications.brand);
    Some(EmailMessage {
        // One for each recipient, and the same for every try.
        id: line.ports.entropy.uuid(notice.at),
        to: to.clone(),
        subject: written.subject,
        text: written.text,
        html: Some(written.html),
        created_at: notice.at,
        timeout: MAIL_TIMEOUT,
    })
}

fn tried(report: Report) -> Tried {
    match report.sent {
        Sent::Answered(response) if (200..300).contains(&response.status) => Tried::Taken,
        Sent::Answered(response) => Tried::Later(format!("it answered {}", response.status)),
        Sent::Refused { error, .. } => Tried::Never(error),
        Sent::Failed { error, .. } | Sent::OutOfResources { error } => Tried::Later(error),
        Sent::Parked { .. } => Tried::Later("it answered that it waits for something".to_owned()),
    }
}
