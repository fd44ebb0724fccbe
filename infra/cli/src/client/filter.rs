//! Which instances a command is about: the filters of the API, as arguments.

use super::instance::{Wanted, id_parser};
use clap::Args;
use duroxide_lambda_api::types::time::{parse_rfc3339, rfc3339};
use duroxide_lambda_api::types::{BatchFilter, Status};

/// The filters. They can be combined.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Filter {
    /// Only instances with this status
    #[arg(long)]
    pub(super) status: Option<Wanted>,
    /// Only instances of this orchestration
    #[arg(long, value_name = "ORCHESTRATION", value_parser = id_parser())]
    name: Option<String>,
    /// Only instances of this version
    #[arg(long, value_name = "VERSION", value_parser = id_parser())]
    version: Option<String>,
    /// Only instances whose ids begin so
    #[arg(long, value_name = "TEXT", value_parser = id_parser(), allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Only instances with this tag; may be repeated
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    tags: Vec<String>,
    /// Only instances that were accepted at this time or later, like 2026-11-17T20:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    created_from: Option<String>,
    /// Only instances that were accepted at this time or before
    #[arg(long, value_name = "TIME", value_parser = time)]
    created_to: Option<String>,
    /// Only instances that ended at this time or later
    #[arg(long, value_name = "TIME", value_parser = time)]
    ended_from: Option<String>,
    /// Only instances that ended at this time or before
    #[arg(long, value_name = "TIME", value_parser = time)]
    ended_to: Option<String>,
    /// Only instances that this one has started
    #[arg(long, value_name = "INSTANCE", value_parser = id_parser())]
    parent: Option<String>,
}

/// A tag as the API takes it.
fn tag(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(format!("{key}:{value}")),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

fn time(text: &str) -> Result<String, String> {
    let ms = parse_rfc3339(text).ok_or("write it like 2026-11-17T20:00:00Z")?;
    Ok(rfc3339(ms))
}

impl Filter {
    /// The parameters of a request.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        self.query_of(self.status.map(Status::from))
    }

    /// The same for instances that have not ended, one request for each status; or for the status that was asked for.
    pub(super) fn in_flight(&self) -> Vec<Vec<(&'static str, String)>> {
        match self.status {
            Some(_) => vec![self.query()],
            None => Status::ALL
                .into_iter()
                .filter(|status| !status.is_finished())
                .map(|status| self.query_of(Some(status)))
                .collect(),
        }
    }

    /// The same as a batch takes it. Without a condition, `all` says that every instance is meant.
    pub(super) fn of_batch(&self, all: bool) -> BatchFilter {
        let tags = self.tags.iter().filter_map(|tag| tag.split_once(':'));
        BatchFilter {
            status: self.status.map(Status::from),
            name: self.name.clone(),
            version: self.version.clone(),
            prefix: self.prefix.clone(),
            tags: tags.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            created_from: self.created_from.clone(),
            created_to: self.created_to.clone(),
            ended_from: self.ended_from.clone(),
            ended_to: self.ended_to.clone(),
            parent: self.parent.clone(),
            all,
        }
    }

    fn query_of(&self, status: Option<Status>) -> Vec<(&'static str, String)> {
        let texts = [
            ("status", status.map(|status| status.to_string())),
            ("name", self.name.clone()),
            ("version", self.version.clone()),
            ("prefix", self.prefix.clone()),
            ("createdFrom", self.created_from.clone()),
            ("createdTo", self.created_to.clone()),
            ("endedFrom", self.ended_from.clone()),
            ("endedTo", self.ended_to.clone()),
            ("parent", self.parent.clone()),
        ];
        let mut query: Vec<_> = texts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect();
        query.extend(self.tags.iter().map(|tag| ("tag", tag.clone())));
        query
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_times_are_passed_as_the_api_takes_them() {
        assert_eq!(tag("customer=a=b"), Ok("customer:a=b".to_owned()));
        assert!(tag("customer").is_err() && tag("=a").is_err() && tag("a=").is_err());
        assert_eq!(
            time("2026-01-31T13:00:00+01:00"),
            Ok("2026-01-31T12:00:00.000Z".to_owned())
        );
        assert!(time("yesterday").is_err());
    }

    #[test]
    fn instances_in_flight_are_all_that_have_not_ended() {
        let filter = Filter {
            name: Some("order".to_owned()),
            ..Filter::default()
        };
        let queries = filter.in_flight();
        let statuses: Vec<&str> = queries.iter().map(|query| query[0].1.as_str()).collect();
        for status in ["Pending", "Running", "Blocked", "ContinuedAsNew"] {
            assert!(statuses.contains(&status), "{status}: {statuses:?}");
        }
        assert!(!statuses.contains(&"Completed"));
        assert!(queries.iter().all(|query| query[1] == ("name", "order".to_owned())));
        let one = Filter {
            status: Some(Wanted::Failed),
            ..filter
        };
        assert_eq!(one.in_flight(), [one.query()]);
    }
}
