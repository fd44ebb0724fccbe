//! What to search for.

use super::row::Row;
use crate::admin::InstanceStatus;

/// Which instances to find; by default all. Conditions add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceFilter {
    /// As it is shown.
    pub status: Option<InstanceStatus>,
    /// The name of the orchestration.
    pub name: Option<String>,
    /// The version of the orchestration, which an instance has from its first turn on.
    pub version: Option<String>,
    /// How the id begins.
    pub prefix: Option<String>,
    /// Tags, all of which it has.
    pub tags: Vec<(String, String)>,
    /// Accepted at this time (Unix ms) or later.
    pub created_from: Option<u64>,
    /// Accepted at this time (Unix ms) or before.
    pub created_to: Option<u64>,
    /// Ended at this time (Unix ms) or later. No index has it beside a status: such a search may have short pages.
    pub completed_from: Option<u64>,
    /// Ended at this time (Unix ms) or before.
    pub completed_to: Option<u64>,
    /// The instance that started it, which is known from its first turn on.
    pub parent: Option<String>,
    /// Only instances that need attention: see [`Attention`](crate::Attention). Failed ones are those that have ended within a day, or
    /// since `completed_from`.
    pub needs_attention: bool,
}

impl InstanceFilter {
    /// Whether an instance matches, whatever an index has decided.
    pub(super) fn matches(&self, row: &Row) -> bool {
        let Some(orchestration) = row.orchestration() else {
            return false;
        };
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        let tags = row.tags.as_map();
        self.status.as_ref().is_none_or(|status| *status == row.status())
            && is(&self.name, Some(orchestration))
            && is(&self.version, row.version.as_deref())
            && is(&self.parent, row.parent.as_deref())
            && self
                .prefix
                .as_ref()
                .is_none_or(|prefix| row.pk.starts_with(prefix.as_str()))
            && self.tags.iter().all(|(name, value)| tags.get(name) == Some(value))
            && self.created_from.is_none_or(|from| row.created_at >= from)
            && self.created_to.is_none_or(|to| row.created_at <= to)
            && self.completed_from.is_none_or(|from| row.completed_at >= Some(from))
            && self
                .completed_to
                .is_none_or(|to| row.completed_at.is_some_and(|at| at <= to))
    }

    /// The filter as a text, which is another for another filter.
    pub(super) fn text(&self) -> String {
        serde_json::json!([
            self.status.as_ref().map(InstanceStatus::name),
            self.name,
            self.version,
            self.prefix,
            self.tags,
            self.created_from,
            self.created_to,
            self.parent,
            self.completed_from,
            self.completed_to,
            self.needs_attention,
        ])
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_condition_must_hold() {
        let row: Row = serde_json::from_value(json!({
            "pk": "order-7", "status": "Failed", "cancelled": true, "name": "fulfil", "version": "1.2.0", "parent": "p",
            "createdAt": 50, "updatedAt": 60, "startedAt": 55, "completedAt": 60, "execution": 1, "events": 3,
            "tags": ["customer:ada", "plan:pro"], "_etag": "\"1\"",
        }))
        .unwrap();
        let text = |text: &str| Some(text.to_owned());
        let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let right = InstanceFilter {
            status: Some(InstanceStatus::Cancelled),
            name: text("fulfil"),
            version: text("1.2.0"),
            prefix: text("order-"),
            tags: vec![tag("plan", "pro"), tag("customer", "ada")],
            created_from: Some(50),
            created_to: Some(50),
            completed_from: Some(60),
            completed_to: Some(60),
            parent: text("p"),
            needs_attention: false,
        };
        assert!(right.matches(&row) && InstanceFilter::default().matches(&row));
        let wrong: [&dyn Fn(&mut InstanceFilter); 11] = [
            &|filter| filter.status = Some(InstanceStatus::Failed),
            &|filter| filter.name = text("other"),
            &|filter| filter.version = text("1.2.1"),
            &|filter| filter.prefix = text("Order-"),
            &|filter| filter.tags.push(tag("plan", "free")),
            &|filter| filter.tags.push(tag("x", "y")),
            &|filter| filter.created_from = Some(51),
            &|filter| filter.created_to = Some(49),
            &|filter| filter.completed_from = Some(61),
            &|filter| filter.completed_to = Some(59),
            &|filter| filter.parent = text("q"),
        ];
        for (n, change) in wrong.iter().enumerate() {
            let mut filter = right.clone();
            change(&mut filter);
            assert!(!filter.matches(&row), "{n}");
            assert_ne!(filter.text(), right.text(), "{n}");
        }
    }
}
