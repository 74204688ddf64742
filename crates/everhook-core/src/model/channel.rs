//! Channels: how people are told what happened. A channel is a destination of deliveries, as an endpoint is.

use aws_lc_rs::digest::{Context, SHA256};

use crate::{
    ids::{ChannelId, OrganizationId, ScheduleVersion},
    model::EmailAddress,
};

/// How many administrators of an organization get its notifications by e-mail.
pub const ADMIN_EMAILS_MAX: usize = 20;

/// An e-mail address that gets an organization's notifications. It takes its deliveries from the organization's application `operational`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its identity, which is also that of its lane.
    pub id: ChannelId,
    /// Where mail is sent.
    pub address: EmailAddress,
    /// The version of the retry schedule that new deliveries keep.
    pub retry_schedule: ScheduleVersion,
}

impl ChannelId {
    /// Of the channel that leads to an organization's administrator. It follows from the two, so that whoever is removed and added again has the same lane.
    pub fn of_email(organization: OrganizationId, address: &EmailAddress) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(organization.as_uuid().as_bytes());
        context.update(b"email");
        context.update(address.as_str().as_bytes());
        let digest = context.finish();
        let (bytes, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
        Self::from_uuid(uuid::Builder::from_custom_bytes(*bytes).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_address_of_an_organization_has_one_channel_and_no_other_has_it() {
        let organization = |number| OrganizationId::from_uuid(Uuid::from_u128(number));
        let channel = |number, address: &str| ChannelId::of_email(organization(number), &EmailAddress::parse(address).unwrap());
        assert_eq!(channel(1, "ops@example.com"), channel(1, "ops@example.com"));
        assert_ne!(channel(1, "ops@example.com"), channel(2, "ops@example.com"));
        assert_ne!(channel(1, "ops@example.com"), channel(1, "dev@example.com"));
    }
}
