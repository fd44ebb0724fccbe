//! Which index serves a filter: pure. `schema` has the indexes.
//!
//! | filter | index, before acceptance and id | beyond it |
//! |---|---|---|
//! | parent | parent | |
//! | name and version | name, version | |
//! | status `Cancelled`, `Blocked`, `Paused` | a mark of its own | name; paused ones among blocked |
//! | name and another status | name, status (pending: the name of the start) | cancelled ones among failed, blocked and paused ones among running |
//! | name | the name of the start, then the name: two reads | |
//! | another status | status | as above |
//! | version without a name, a prefix or a tag that very many instances have | (all instances) | the condition |
//!
//! What an index does not decide is checked for each instance that it returns. An instance of a prefix or with a tag is first looked for
//! by that alone ([`Narrow`]), in no order: if there are few, they are all that must be sorted.

use super::InstanceFilter;
use super::merge::Key;
use super::row::FIELDS;
use crate::admin::InstanceStatus;
use crate::model::Tags;
use crate::model::sql::INSTANCE;
use cosmos::Query;
use serde_json::{Value, json};

/// A read in the order of acceptance: the values of the paths that an index has before that.
#[derive(Debug, PartialEq)]
pub(super) struct Leg {
    equal: Vec<(&'static str, Value)>,
}

/// The reads in the order of acceptance that together find everything that matches.
pub(super) fn legs(filter: &InstanceFilter) -> Result<Vec<Leg>, String> {
    let leg = |equal: Vec<(&'static str, Value)>| Leg { equal };
    if let Some(parent) = &filter.parent {
        return Ok(vec![leg(vec![("parent", json!(parent))])]);
    }
    if let (Some(name), Some(version)) = (&filter.name, &filter.version) {
        return Ok(vec![leg(vec![("name", json!(name)), ("version", json!(version))])]);
    }
    let one = match (&filter.status, &filter.name) {
        (Some(InstanceStatus::Other(status)), _) => return Err(format!("no index has the status '{status}'")),
        (Some(InstanceStatus::Cancelled), _) => vec![("cancelled", json!(true))],
        (Some(InstanceStatus::Blocked), _) => vec![("blocked.listed", json!(true))],
        (Some(InstanceStatus::Paused), _) => vec![("paused.listed", json!(true))],
        (Some(InstanceStatus::Pending), Some(name)) => vec![("startName", json!(name))],
        (Some(status), Some(name)) => vec![("name", json!(name)), ("status", json!(status.name()))],
        (Some(status), None) => vec![("status", json!(status.name()))],
        (None, Some(name)) => {
            // The start's first: what begins in between is in the second.
            return Ok(vec![
                leg(vec![("startName", json!(name))]),
                leg(vec![("name", json!(name))]),
            ]);
        }
        (None, None) => Vec::new(),
    };
    Ok(vec![leg(one)])
}

impl Leg {
    pub(super) fn query(&self, filter: &InstanceFilter, after: Option<&Key>) -> Query {
        let mut conditions = vec![format!("c.type = {INSTANCE}")];
        let mut order = vec!["c.type DESC".to_owned()];
        for (n, (path, _)) in self.equal.iter().enumerate() {
            conditions.push(format!("c.{path} = @equal{n}"));
            order.push(format!("c.{path} DESC"));
        }
        order.extend(["c.createdAt DESC", "c.pk DESC"].map(str::to_owned));
        conditions.extend(bounds(filter, after));
        if after.is_some() {
            conditions.push("(c.createdAt < @at OR c.pk < @pk)".to_owned());
        }
        let (conditions, order) = (conditions.join(" AND "), order.join(", "));
        let query = Query::new(format!("SELECT {FIELDS} FROM c WHERE {conditions} ORDER BY {order}"));
        let values = self.equal.iter().enumerate();
        let query = values.fold(query, |query, (n, (_, value))| {
            query.param(&format!("@equal{n}"), value)
        });
        let query = bounded(query, filter, after);
        match after {
            Some(after) => query.param("@at", after.created_at).param("@pk", &after.pk),
            None => query,
        }
    }
}

/// A read of the instances with these ids, in no order.
pub(super) fn by_ids(ids: &[&String]) -> Query {
    let text = format!("SELECT {FIELDS} FROM c WHERE c.type = {INSTANCE} AND ARRAY_CONTAINS(@ids, c.pk)");
    Query::new(text).param("@ids", ids)
}

/// A read of everything with a tag or prefix, in no order.
#[derive(Debug)]
pub(super) struct Narrow;

/// Such a read, if the filter has one of these.
pub(super) fn narrow(filter: &InstanceFilter) -> Option<Narrow> {
    let has_prefix = filter.prefix.as_ref().is_some_and(|prefix| !prefix.is_empty());
    (has_prefix || !filter.tags.is_empty()).then_some(Narrow)
}

impl Narrow {
    pub(super) fn query(&self, filter: &InstanceFilter, after: Option<&Key>) -> Query {
        let mut conditions = match filter.tags.is_empty() {
            // Only an instance has executions.
            true => vec!["IS_DEFINED(c.executions) AND STARTSWITH(c.pk, @prefix)".to_owned()],
            false => vec![format!("c.type = {INSTANCE}")],
        };
        for n in 0..filter.tags.len() {
            conditions.push(format!("ARRAY_CONTAINS(c.tags, @tag{n})"));
        }
        conditions.extend(bounds(filter, after));
        let conditions = conditions.join(" AND ");
        let mut query = Query::new(format!("SELECT {FIELDS} FROM c WHERE {conditions}"));
        if filter.tags.is_empty() {
            query = query.param("@prefix", &filter.prefix);
        }
        for (n, (name, value)) in filter.tags.iter().enumerate() {
            query = query.param(&format!("@tag{n}"), Tags::text(name, value));
        }
        bounded(query, filter, after)
    }
}

/// The conditions on the time of acceptance.
fn bounds(filter: &InstanceFilter, after: Option<&Key>) -> Vec<String> {
    let from = filter.created_from.map(|_| "c.createdAt >= @from".to_owned());
    let to = to(filter, after).map(|_| "c.createdAt <= @to".to_owned());
    from.into_iter().chain(to).collect()
}

fn bounded(mut query: Query, filter: &InstanceFilter, after: Option<&Key>) -> Query {
    if let Some(from) = filter.created_from {
        query = query.param("@from", from);
    }
    if let Some(to) = to(filter, after) {
        query = query.param("@to", to);
    }
    query
}

fn to(filter: &InstanceFilter, after: Option<&Key>) -> Option<u64> {
    filter
        .created_to
        .into_iter()
        .chain(after.map(|after| after.created_at))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(change: impl FnOnce(&mut InstanceFilter)) -> InstanceFilter {
        let mut filter = InstanceFilter::default();
        change(&mut filter);
        filter
    }

    fn paths(filter: &InstanceFilter) -> Vec<Vec<&'static str>> {
        let paths = |leg: &Leg| leg.equal.iter().map(|(path, _)| *path).collect();
        legs(filter).unwrap().iter().map(paths).collect()
    }

    #[test]
    fn the_most_selective_index_serves_a_filter() {
        let name = || Some("fulfil".to_owned());
        let version = || Some("1.0.0".to_owned());
        let status = |status| filter(|filter| filter.status = Some(status));
        let named = |status| filter(|filter| (filter.status, filter.name) = (Some(status), name()));
        for (filter, expected) in [
            (InstanceFilter::default(), vec![vec![]]),
            (status(InstanceStatus::Failed), vec![vec!["status"]]),
            (status(InstanceStatus::Cancelled), vec![vec!["cancelled"]]),
            (status(InstanceStatus::Blocked), vec![vec!["blocked.listed"]]),
            (status(InstanceStatus::Paused), vec![vec!["paused.listed"]]),
            (named(InstanceStatus::Paused), vec![vec!["paused.listed"]]),
            (named(InstanceStatus::Failed), vec![vec!["name", "status"]]),
            (named(InstanceStatus::Pending), vec![vec!["startName"]]),
            (named(InstanceStatus::Cancelled), vec![vec!["cancelled"]]),
            (filter(|it| it.name = name()), vec![vec!["startName"], vec!["name"]]),
            (
                filter(|it| (it.name, it.version) = (name(), version())),
                vec![vec!["name", "version"]],
            ),
            (filter(|it| it.version = version()), vec![vec![]]),
            (filter(|it| it.parent = name()), vec![vec!["parent"]]),
            (
                filter(|it| (it.parent, it.version) = (name(), version())),
                vec![vec!["parent"]],
            ),
            (filter(|it| it.prefix = name()), vec![vec![]]),
        ] {
            assert_eq!(paths(&filter), expected, "{filter:?}");
        }
        assert!(legs(&status(InstanceStatus::Other("Strange".to_owned()))).is_err());
    }

    #[test]
    fn only_a_tag_or_a_prefix_is_looked_for_alone() {
        assert!(narrow(&InstanceFilter::default()).is_none());
        assert!(narrow(&filter(|filter| filter.prefix = Some(String::new()))).is_none());
        assert!(narrow(&filter(|filter| filter.prefix = Some("o".to_owned()))).is_some());
        assert!(narrow(&filter(|filter| filter.tags = vec![("a".to_owned(), "b".to_owned())])).is_some());
    }
}
