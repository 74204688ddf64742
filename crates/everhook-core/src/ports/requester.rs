//! In whose name a store is asked, where a client's request asks it.
//!
//! Reads of a store are made by few connections, for which organizations take turns. The server sets the organization once it has looked at the
//! request's key, and the stores read it. It belongs to the task and not to the ports' methods, because every method would need it and none would
//! answer differently. What no request asks for, and what a request leaves to other tasks, is the server's own.

use std::cell::Cell;

use crate::ids::OrganizationId;

tokio::task_local! {
    static REQUESTER: Cell<Option<OrganizationId>>;
}

/// Answers a request whose organization becomes known meanwhile.
pub async fn request<F: Future>(answer: F) -> F::Output {
    REQUESTER.scope(Cell::new(None), answer).await
}

/// Remembers in whose name the request is made that this task answers. Elsewhere it does nothing.
pub fn set_requester(organization: OrganizationId) {
    let _ = REQUESTER.try_with(|requester| requester.set(Some(organization)));
}

/// In whose name this task asks; `None` if for the server itself.
pub fn requester() -> Option<OrganizationId> {
    REQUESTER.try_with(Cell::get).ok().flatten()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn the_requester_is_known_to_the_task_that_answers_and_to_no_other() {
        let organization = OrganizationId::from_uuid(Uuid::from_u128(7));
        set_requester(organization);
        assert_eq!(requester(), None, "this task answers no request");
        let answer = async {
            assert_eq!(requester(), None);
            set_requester(organization);
            let elsewhere = tokio::spawn(async { requester() }).await.expect("no panic");
            (requester(), elsewhere)
        };
        assert_eq!(request(answer).await, (Some(organization), None));
        assert_eq!(requester(), None);
    }
}
