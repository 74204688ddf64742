//! Calls that people decide about: kept with what is told of them, decided once, and forgotten when nothing needs them.

use bytes::Bytes;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, ApprovalId, EventId, OrganizationId},
    model::{Actor, Approval, ApprovalDecision, ApprovalEnd, ApprovalStatus, AuditAction, AuditEntry, CapabilityName, Cursor, PageRequest},
    ports::{Alert, ApprovalFilter, ApprovalRequested, AuditFilter, Decided, Deleted},
};

use super::given::{Given, NOW, after, application, deletion, entry, event_type, id};

/// A call that waits, with every field set.
pub fn approval(organization: OrganizationId, application: ApplicationId, expires: u64) -> Approval {
    let capability = CapabilityName::parse("winnerSelection").unwrap();
    Approval {
        id: ApprovalId::from_uuid(id()),
        organization,
        application,
        lane_id: capability.lane(application),
        capability,
        request_id: id(),
        cause: "timeout: the äpp did not answer".to_owned(),
        call: Some(Bytes::from_static(&[0, 255, 1])),
        requested_at: after(1),
        expires_at: after(expires),
        decision: None,
    }
}

/// What is told of one.
pub fn alert(organization: OrganizationId) -> Alert {
    Alert { id: id(), organization, event_type: event_type("approval.requested"), data: Bytes::from_static(b"{}") }
}

/// Approved by a key, as a job.
pub fn queued(job: EventId) -> ApprovalDecision {
    ApprovalDecision {
        end: ApprovalEnd::Queued { job },
        by: Actor::Key { id: ApiKeyId::from_uuid(id()), name: "Mïa".to_owned() },
        reason: Some("looks\ngood".to_owned()),
        at: after(5),
        unpublished: Some(job),
    }
}

fn ended(end: ApprovalEnd, unpublished: Option<EventId>) -> ApprovalDecision {
    ApprovalDecision { end, by: Actor::Server, reason: None, at: after(6), unpublished }
}

/// As lists have it.
fn short(approval: &Approval) -> Approval {
    let mut short = Approval { call: None, ..approval.clone() };
    if let Some(ApprovalDecision { end: ApprovalEnd::Answered { data }, .. }) = &mut short.decision {
        *data = None;
    }
    short
}

impl Given {
    async fn requested(&self, expires: u64) -> Approval {
        let made = approval(self.organization, self.application, expires);
        let requested = self.store.request_approval(made.clone(), 1_000, alert(self.organization)).await.unwrap();
        assert_eq!(requested, ApprovalRequested::Kept);
        made
    }

    async fn decide(&self, of: &Approval, decision: ApprovalDecision) -> Decided {
        let entry = AuditEntry { organization: self.organization, action: AuditAction::ApprovalApprove, ..entry() };
        self.store.decide_approval(self.organization, of.id, decision, entry).await.unwrap()
    }

    async fn approval(&self, of: &Approval) -> Option<Approval> {
        self.store.approval(self.organization, of.id).await.unwrap()
    }

    async fn listed_approvals(&self, application: Option<ApplicationId>, status: Option<ApprovalStatus>) -> Vec<Approval> {
        let page = PageRequest { limit: 10, cursor: Cursor::Newest };
        self.store.approvals(self.organization, ApprovalFilter { application, status }, page).await.unwrap().rows
    }

    async fn unpublished(&self) -> Vec<Approval> {
        let of = async |after, limit| self.store.unpublished_approvals(after, limit).await.unwrap();
        let all = of(ApprovalId::from_uuid(uuid::Uuid::nil()), 10).await;
        if let Some(last) = all.last() {
            assert_eq!(of(last.id, 10).await, []);
        }
        all
    }
}

#[tokio::test]
async fn a_call_is_kept_once_with_what_is_told_of_it_or_neither() {
    let given = Given::new().await;
    let made = given.requested(60).await;
    let told = given.store.pending(10).await.unwrap();
    assert_eq!(told.len(), 1);
    // The same again, after an unknown outcome.
    let again = given.store.request_approval(made.clone(), 1_000, alert(given.organization)).await.unwrap();
    assert_eq!((again, given.store.pending(10).await.unwrap()), (ApprovalRequested::Kept, told.clone()));
    let given = given.reopened().await;
    assert_eq!(given.approval(&made).await, Some(made.clone()));
    assert_eq!(given.store.approval(OrganizationId::from_uuid(id()), made.id).await.unwrap(), None, "another's");
    // As many wait as may; those of another application do not count.
    let one_more = approval(given.organization, given.application, 60);
    let refused = given.store.request_approval(one_more.clone(), 1, alert(given.organization)).await.unwrap();
    assert_eq!((refused, given.approval(&one_more).await), (ApprovalRequested::TooMany, None));
    let shop = application(given.organization);
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let of_shop = approval(given.organization, shop.id, 60);
    assert_eq!(given.store.request_approval(of_shop, 1, alert(given.organization)).await.unwrap(), ApprovalRequested::Kept);
    let of_nobody = approval(given.organization, ApplicationId::from_uuid(id()), 60);
    let refused = given.store.request_approval(of_nobody, 9, alert(given.organization)).await.unwrap();
    assert_eq!((refused, given.store.pending(10).await.unwrap().len()), (ApprovalRequested::NoSuchApplication, told.len() + 1));
    // Who is decided about waits no more.
    given.decide(&made, ended(ApprovalEnd::Rejected, None)).await;
    assert_eq!(given.store.request_approval(one_more, 1, alert(given.organization)).await.unwrap(), ApprovalRequested::Kept);
}

#[tokio::test]
async fn the_first_decision_stands_is_audited_and_keeps_the_call_until_its_event_is_published() {
    let given = Given::new().await;
    let made = given.requested(60).await;
    let job = EventId::from_uuid(id());
    assert_eq!(given.decide(&made, queued(job)).await, Decided::Decided);
    let Some(Approval { decision: Some(kept), .. }) = given.approval(&made).await else { panic!("it is decided") };
    let expected = Approval { decision: Some(ApprovalDecision { by: kept.by.clone(), ..queued(job) }), ..made.clone() };
    assert!(matches!(&kept.by, Actor::Key { name, .. } if name == "Mïa"));
    let given = given.reopened().await;
    assert_eq!((given.approval(&made).await.unwrap(), given.unpublished().await), (expected.clone(), vec![expected.clone()]));
    // Whoever comes second learns what was decided, and nothing is entered.
    for other in [ended(ApprovalEnd::Rejected, None), queued(EventId::from_uuid(id()))] {
        assert_eq!(given.decide(&made, other).await, Decided::Before(Box::new(expected.clone())));
    }
    let page = PageRequest { limit: 10, cursor: Cursor::Newest };
    let filter = AuditFilter { action: Some(AuditAction::ApprovalApprove), ..AuditFilter::default() };
    assert_eq!(given.store.audit_log(given.organization, filter, page).await.unwrap().rows.len(), 1);
    let stranger = approval(given.organization, given.application, 60);
    assert_eq!(given.decide(&stranger, queued(job)).await, Decided::NotFound);
    // Another event's being published changes nothing.
    given.store.approval_published(made.id, EventId::from_uuid(id())).await.unwrap();
    assert_eq!(given.unpublished().await.len(), 1);
    for _ in 0..2 {
        given.store.approval_published(made.id, job).await.unwrap();
        let decision = ApprovalDecision { unpublished: None, ..expected.decision.clone().unwrap() };
        assert_eq!(given.approval(&made).await, Some(Approval { call: None, decision: Some(decision), ..made.clone() }));
        assert_eq!(given.unpublished().await, []);
    }
}

#[tokio::test]
async fn approvals_are_listed_by_application_and_status_without_what_is_sealed() {
    let given = Given::new().await;
    let shop = application(given.organization);
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let (waiting, answered, expired) = (given.requested(60).await, given.requested(50).await, given.requested(40).await);
    let of_shop = approval(given.organization, shop.id, 30);
    assert_eq!(given.store.request_approval(of_shop.clone(), 9, alert(given.organization)).await.unwrap(), ApprovalRequested::Kept);
    assert_eq!(given.store.expiring_approvals(3).await.unwrap(), [short(&of_shop), short(&expired), short(&answered)]);
    let answer = ended(ApprovalEnd::Answered { data: Some(Bytes::from_static(&[7, 0])) }, None);
    let message = EventId::from_uuid(id());
    assert_eq!(given.decide(&answered, answer.clone()).await, Decided::Decided);
    assert_eq!(given.decide(&expired, ended(ApprovalEnd::Expired, Some(message))).await, Decided::Decided);
    let answered = Approval { call: None, decision: Some(answer), ..answered };
    let expired = Approval { decision: Some(ended(ApprovalEnd::Expired, Some(message))), ..expired };
    assert_eq!(given.approval(&answered).await, Some(answered.clone()), "no event is to be published: the call is gone");
    assert_eq!(given.approval(&expired).await, Some(expired.clone()));
    let all = [&of_shop, &expired, &answered, &waiting].map(short);
    assert_eq!(given.listed_approvals(None, None).await, all);
    assert_eq!(given.listed_approvals(Some(given.application), None).await, all[1..]);
    let of = async |status| given.listed_approvals(None, Some(status)).await;
    assert_eq!(of(ApprovalStatus::Pending).await, [all[0].clone(), all[3].clone()]);
    assert_eq!((of(ApprovalStatus::Approved).await, of(ApprovalStatus::Expired).await), (vec![all[2].clone()], vec![all[1].clone()]));
    assert_eq!(given.listed_approvals(Some(given.application), Some(ApprovalStatus::Pending)).await, [all[3].clone()]);
    assert_eq!(of(ApprovalStatus::Rejected).await, []);
    // Pages in both directions.
    let page = |limit, cursor| given.store.approvals(given.organization, ApprovalFilter::default(), PageRequest { limit, cursor });
    let first = page(3, Cursor::Newest).await.unwrap();
    let second = page(3, first.next.unwrap()).await.unwrap();
    assert_eq!((first.rows, second.rows.clone()), (all[..3].to_vec(), all[3..].to_vec()));
    assert_eq!(page(2, second.prev.unwrap()).await.unwrap().rows, all[1..3]);
}

#[tokio::test]
async fn what_was_decided_is_forgotten_after_its_time_and_goes_with_its_application() {
    let given = Given::new().await;
    let (waiting, done, open) = (given.requested(60).await, given.requested(60).await, given.requested(60).await);
    given.decide(&done, ended(ApprovalEnd::Rejected, None)).await;
    given.decide(&open, queued(EventId::from_uuid(id()))).await;
    assert_eq!(given.store.forget_approvals(after(6), 10).await.unwrap(), 0, "it was decided then");
    assert_eq!(given.store.forget_approvals(after(7), 10).await.unwrap(), 1);
    assert_eq!(
        (given.approval(&done).await, given.listed_approvals(None, None).await.len()),
        (None, 2),
        "what waits or is not published stays"
    );
    let shop = application(given.organization);
    given.store.create_application(shop.clone(), entry()).await.unwrap();
    let of_shop = approval(given.organization, shop.id, 30);
    given.store.request_approval(of_shop.clone(), 9, alert(given.organization)).await.unwrap();
    let deleted = given.store.delete_application(given.organization, shop.id, deletion()).await.unwrap();
    assert!(matches!(deleted, Deleted::Deleted(_)), "{deleted:?}");
    while given.store.delete_contents(NOW, 1).await.unwrap().has_more {}
    assert_eq!(given.approval(&of_shop).await, None);
    assert_eq!(given.approval(&waiting).await, Some(waiting), "another application's stays");
}
