//! What nodes draw from together: the port `ThrottleStore`. An exchange is two scripts at most, each one way to the server and back, and atomic.

use std::{sync::LazyLock, time::Duration};

use async_trait::async_trait;
use everhook_core::{
    model::{Budget, Credit, SlotRequest, TokenGrant, TokenRequest},
    policy::shared_slots::{SLICE, SLOTS_HELD_FOR},
    ports::{Ask, Grant, StoreError, ThrottleStore, Wanted},
};
use redis::Script;
use uuid::Uuid;

use super::{
    Redis,
    link::{Link, NoAnswer},
    micros,
};

static DRAW_TOKENS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/draw_tokens.lua")));
static SHARE_SLOTS: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("scripts/share_slots.lua")));

#[async_trait]
impl ThrottleStore for Redis {
    async fn exchange(&self, asks: Vec<Ask>) -> Result<Vec<Grant>, StoreError> {
        let drawn = draw_tokens(&self.link, &asks);
        let shared = share_slots(&self.link, self.holder, &asks);
        let (drawn, shared) = tokio::try_join!(drawn, shared).map_err(StoreError::unavailable)?;
        let (mut drawn, mut shared) = (drawn.into_iter(), shared.into_iter());
        let grant = |ask: &Ask| match ask.what {
            Wanted::Tokens(..) => drawn.next().map(Grant::Tokens),
            Wanted::Slots(_) => shared.next().map(Grant::Slots),
        };
        asks.iter().map(grant).collect::<Option<_>>().ok_or_else(|| StoreError::corrupt("Redis did not answer every ask"))
    }
}

async fn draw_tokens(link: &Link, asks: &[Ask]) -> Result<Vec<TokenGrant>, NoAnswer> {
    let draws: Vec<(String, TokenRequest)> = asks.iter().filter_map(|ask| tokens_of(link, ask)).collect();
    if draws.is_empty() {
        return Ok(Vec::new());
    }
    let mut script = DRAW_TOKENS.prepare_invoke();
    for (key, TokenRequest { limit, take, give_back, credit }) in draws {
        script.key(key).arg(limit.per.as_micros()).arg(limit.requests.get()).arg(limit.burst.get()).arg(take).arg(give_back);
        match credit {
            Credit::Ahead(ahead) => script.arg(micros(ahead)),
            Credit::Owed => script.arg(-1),
        };
    }
    let answers: Vec<u64> = link.ask(async |mut connection| script.invoke_async(&mut connection).await).await?;
    let drawn = |answer: &[u64]| TokenGrant {
        granted: u32::try_from(answer[0]).unwrap_or(u32::MAX),
        good_in: Duration::from_micros(answer[1]),
        next_in: Duration::from_micros(answer[2]),
    };
    Ok(answers.chunks_exact(3).map(drawn).collect())
}

async fn share_slots(link: &Link, holder: Uuid, asks: &[Ask]) -> Result<Vec<u32>, NoAnswer> {
    let slot_requests: Vec<(String, SlotRequest)> = asks.iter().filter_map(|ask| slots_of(link, ask)).collect();
    if slot_requests.is_empty() {
        return Ok(Vec::new());
    }
    let mut script = SHARE_SLOTS.prepare_invoke();
    script.arg(holder.to_string()).arg(micros(SLOTS_HELD_FOR)).arg(micros(SLICE));
    for (key, SlotRequest { limit, bound, wanted }) in slot_requests {
        script.key(key).arg(limit.get()).arg(bound).arg(wanted);
    }
    link.ask(async |mut connection| script.invoke_async(&mut connection).await).await
}

fn tokens_of(link: &Link, ask: &Ask) -> Option<(String, TokenRequest)> {
    let Wanted::Tokens(budget, draw) = ask.what else { return None };
    Some((key(link, ask, Budget::as_str(budget)), draw))
}

fn slots_of(link: &Link, ask: &Ask) -> Option<(String, SlotRequest)> {
    let Wanted::Slots(slots) = ask.what else { return None };
    Some((key(link, ask, "slots"), slots))
}

fn key(link: &Link, ask: &Ask, kind: &str) -> String {
    format!("{}budget:{}:{kind}", link.prefix, ask.organization)
}
