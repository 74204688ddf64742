//! A person who decides about calls that wait, sometimes twice, and sometimes otherwise than before.

use std::collections::BTreeSet;

use bytes::Bytes;
use everhook_core::{
    ids::ApprovalId,
    manage::{
        Refusal,
        approvals::{self, Verdict},
    },
    model::{ApprovalEnd, Author},
    ports::StoreError,
};

use super::{
    Simulation,
    log::{Decision, Entry, Happening, Taken},
    oracle::StoredApproval,
};

/// Among how many of the newest calls that wait the person chooses.
const CHOICE: usize = 6;

impl Simulation {
    /// The person decides about a call that waits, or has waited.
    pub(super) async fn let_a_person_decide(&mut self) {
        let known: Vec<_> = self.known_approvals().into_iter().collect();
        let newest = &known[known.len().saturating_sub(CHOICE)..];
        let Some(caller) = self.caller.as_ref().filter(|_| !newest.is_empty()) else { return };
        let by = Author::server(caller.organization);
        let chosen = newest[self.dice.below(newest.len() as u64) as usize];
        let decision = match self.dice.below(4) {
            0 => Decision::Reject,
            1 => Decision::Answer(self.dice.below(1_000)),
            _ => Decision::Queue,
        };
        let taken = match approvals::decide(self.world.line(), &by, chosen, decision.verdict(), None).await {
            Ok(_) => Taken::Yes,
            Err(Refusal::Store(_) | Refusal::Busy) => Taken::Perhaps,
            Err(Refusal::NotFound(_)) => Taken::Unknown,
            Err(_) => Taken::No,
        };
        self.log.note(Happening::PersonDecided(chosen, decision, taken));
    }

    /// What became of the calls that callers know to wait.
    pub(super) async fn read_approvals(&self) -> Result<Vec<(ApprovalId, StoredApproval)>, StoreError> {
        let Some(caller) = &self.caller else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for id in self.known_approvals() {
            let view = match approvals::get(self.world.line(), caller.organization, id).await {
                Ok(view) => view,
                Err(Refusal::Store(error)) => return Err(error),
                Err(_) => continue,
            };
            let end = view.approval.decision.map(|decision| decision.end);
            let job = match end {
                Some(ApprovalEnd::Queued { job }) => Some(job),
                _ => None,
            };
            let answer = view.data.as_deref().and_then(|data| serde_json::from_slice(data).ok()).unwrap_or_default();
            let decision = end.and_then(|end| match end {
                ApprovalEnd::Queued { .. } => Some(Decision::Queue),
                ApprovalEnd::Answered { .. } => Some(Decision::Answer(answer)),
                ApprovalEnd::Rejected => Some(Decision::Reject),
                ApprovalEnd::Expired => None,
            });
            found.push((id, StoredApproval { decision, job }));
        }
        Ok(found)
    }

    fn known_approvals(&self) -> BTreeSet<ApprovalId> {
        let pending = |entry: &Entry| match entry.what {
            Happening::CallPending(_, approval) => Some(approval),
            _ => None,
        };
        self.log.read(|entries| entries.iter().filter_map(pending).collect())
    }
}

impl Decision {
    fn verdict(self) -> Verdict {
        match self {
            Self::Queue => Verdict::Queue,
            Self::Answer(number) => Verdict::Answer(Bytes::from(number.to_string())),
            Self::Reject => Verdict::Reject,
        }
    }
}
