//! What calls leave behind: answers and draws.

use bytes::Bytes;
use everhook_core::{
    ids::{LaneId, OrganizationId},
    model::{CacheKey, CachedAnswer, CapabilityName, FairDraw, LaneAnswers},
};
use uuid::Uuid;

use super::given::{Given, NOW, after, id};

fn answer(lane_id: LaneId, n: u8, stored: u64, expires: u64) -> CachedAnswer {
    let data = Bytes::from(vec![n, 0, 255]);
    CachedAnswer { key: CacheKey { lane_id, hash: [n; 32] }, data, stored_at: after(stored), expires_at: after(expires) }
}

fn draw(given: &Given) -> FairDraw {
    FairDraw {
        request_id: id(),
        organization: given.organization,
        application: given.application,
        capability: CapabilityName::parse("winnerSelection").unwrap(),
        drawn_at: NOW,
        seed: [200; 32],
        list_hash: [0; 32],
        list_length: 4_000_000_000,
        picked: 3_999_999_999,
    }
}

#[tokio::test]
async fn an_answer_is_found_by_its_key_and_replaced_by_a_newer_one_only() {
    let given = Given::new().await;
    let (one, two) = (LaneId::from_uuid(id()), LaneId::from_uuid(id()));
    given.store.keep_answers(vec![answer(one, 1, 10, 100), answer(two, 1, 10, 100), answer(one, 2, 10, 100)]).await.unwrap();
    for expected in [answer(one, 1, 10, 100), answer(two, 1, 10, 100), answer(one, 2, 10, 100)] {
        assert_eq!(given.store.cached_answer(expected.key).await.unwrap(), Some(expected));
    }
    let newer = CachedAnswer { data: Bytes::from_static(b"newer"), ..answer(one, 1, 20, 200) };
    let older = CachedAnswer { data: Bytes::from_static(b"older"), ..answer(one, 2, 5, 200) };
    given.store.keep_answers(vec![newer.clone(), older]).await.unwrap();
    assert_eq!(given.store.cached_answer(newer.key).await.unwrap(), Some(newer));
    let kept = answer(one, 2, 10, 100);
    assert_eq!(given.store.cached_answer(kept.key).await.unwrap(), Some(kept));
    assert_eq!(given.store.cached_answer(CacheKey { lane_id: two, hash: [9; 32] }).await.unwrap(), None);
}

#[tokio::test]
async fn expired_answers_go_a_few_at_a_time_and_so_do_the_oldest_of_a_lane() {
    let given = Given::new().await;
    let (one, two) = (LaneId::from_uuid(id()), LaneId::from_uuid(id()));
    let expired = (0..5).map(|n| answer(one, n, 0, 10));
    let fresh = (5..15_u8).map(|n| answer(one, n, u64::from(n), 100));
    given.store.keep_answers(expired.chain(fresh).chain([answer(two, 0, 0, 100)]).collect()).await.unwrap();
    assert_eq!(given.store.forget_answers(after(10), 3).await.unwrap(), 3);
    assert_eq!(given.store.forget_answers(after(10), 3).await.unwrap(), 2);
    assert_eq!(given.store.forget_answers(after(10), 3).await.unwrap(), 0);
    assert_eq!(given.store.forget_oldest_answers(one, 2).await.unwrap(), 2);
    assert_eq!(given.store.forget_oldest_answers(one, 4).await.unwrap(), 4);
    assert_eq!(given.store.forget_oldest_answers(LaneId::from_uuid(id()), 4).await.unwrap(), 0);
    let is_kept = async |n| given.store.cached_answer(answer(one, n, 0, 0).key).await.unwrap().is_some();
    assert!(!is_kept(10).await, "the oldest went");
    for n in 11..15 {
        assert!(is_kept(n).await, "{n} is one of the newest");
    }
    assert!(given.store.cached_answer(answer(two, 0, 0, 0).key).await.unwrap().is_some());
}

#[tokio::test]
async fn the_answers_of_an_organization_are_counted_by_lane() {
    let given = Given::new().await;
    let lanes = [LaneId::from_uuid(id()), LaneId::from_uuid(id())];
    let manifest = super::manifests::manifest(given.organization, given.application, 1);
    let read = given.read_application().await;
    given
        .store
        .put_manifest(
            everhook_core::ports::ManifestChange { read, manifest },
            super::manifests::job_lanes(lanes),
            None,
            Vec::new(),
            super::manifests::BOUNDS,
            super::given::entry(),
        )
        .await
        .unwrap();
    let strangers = LaneId::from_uuid(id());
    assert_eq!(given.store.answers_of(given.organization).await.unwrap(), []);
    given.store.keep_answers(vec![answer(lanes[0], 1, 0, 9), answer(lanes[0], 2, 0, 9), answer(strangers, 1, 0, 9)]).await.unwrap();
    let expected = LaneAnswers { lane_id: lanes[0], answers: 2, bytes: 6 };
    assert_eq!(given.store.answers_of(given.organization).await.unwrap(), [expected]);
    assert_eq!(given.store.answers_of(OrganizationId::from_uuid(id())).await.unwrap(), []);
}

#[tokio::test]
async fn a_draw_is_kept_once_found_by_its_organization_and_forgotten_when_it_is_old() {
    let given = Given::new().await;
    let draw = draw(&given);
    given.store.keep_draw(draw.clone()).await.unwrap();
    given.store.keep_draw(FairDraw { picked: 1, ..draw.clone() }).await.unwrap();
    assert_eq!(given.store.draw(given.organization, draw.request_id).await.unwrap(), Some(draw.clone()), "the first stays");
    assert_eq!(given.store.draw(OrganizationId::from_uuid(id()), draw.request_id).await.unwrap(), None);
    assert_eq!(given.store.draw(given.organization, Uuid::nil()).await.unwrap(), None);
    assert_eq!(given.store.forget_draws(NOW, 10).await.unwrap(), 0);
    assert_eq!(given.store.forget_draws(after(1), 10).await.unwrap(), 1);
    assert_eq!(given.store.draw(given.organization, draw.request_id).await.unwrap(), None);
}
