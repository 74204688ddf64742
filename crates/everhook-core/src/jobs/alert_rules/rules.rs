//! The rules that are in force: the defaults, and what organizations say instead and beside.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{ids::OrganizationId, line::Line, model::AlertRule, policy::alerts::defaults::in_force, ports::StoreError};

/// How many rules are read at once.
const PAGE: u32 = 500;

/// The rules of all organizations.
pub struct Rules {
    defaults: Arc<[AlertRule]>,
    /// Those of organizations that wrote any.
    own: FxHashMap<OrganizationId, Arc<[AlertRule]>>,
}

impl Rules {
    /// Reads them. Most organizations have none of their own.
    pub async fn read(line: &Line) -> Result<Self, StoreError> {
        let mut written: FxHashMap<OrganizationId, Vec<AlertRule>> = FxHashMap::default();
        let mut after = None;
        loop {
            let page = line.ports.alert_rules.alert_rules_after(after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            after = page.last().map(|last| last.id).or(after);
            page.into_iter().for_each(|own| written.entry(own.organization).or_default().push(own.rule));
            if is_last {
                break;
            }
        }
        let own = written.into_iter().map(|(organization, own)| (organization, in_force(own).into())).collect();
        Ok(Self { defaults: in_force(Vec::new()).into(), own })
    }

    /// Those of an organization.
    pub fn of(&self, organization: OrganizationId) -> Arc<[AlertRule]> {
        self.own.get(&organization).unwrap_or(&self.defaults).clone()
    }
}
