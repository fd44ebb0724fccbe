//! Query parameters: each is known, and is given once unless it may repeat. A mistake is refused, not ignored: a misspelt filter
//! would return everything.

use crate::refusal::Refusal;
use crate::types::time::parse_rfc3339;
use std::ops::RangeInclusive;
use std::str::FromStr;
use url::form_urlencoded;

/// The parameters of one request.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the parameters, which must be among these; those that end in `*` may repeat.
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> Result<Query, Refusal> {
        let mut read: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let found = known.iter().find(|known| known.trim_end_matches('*') == name);
            let Some(found) = found else {
                let names: Vec<_> = known.iter().map(|name| name.trim_end_matches('*')).collect();
                let what = match names.is_empty() {
                    true => "this request has no parameters".to_owned(),
                    false => format!("it has {}", names.join(", ")),
                };
                return Err(Refusal::invalid(format!("the parameter {name:?} is not known: {what}")));
            };
            if !found.ends_with('*') && read.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::invalid(format!("the parameter {name} is given twice")));
            }
            read.push((name.into_owned(), value.into_owned()));
        }
        Ok(Query(read))
    }

    /// A parameter's text, if it is given and not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).find(|text| !text.is_empty())
    }

    /// A parameter as it is given, even if that is nothing: `limit=` is a mistake.
    fn given(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All texts of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(is, _)| is == name)
            .map(|(_, value)| value.as_str())
    }

    /// A whole number within a range.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.given(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(Refusal::invalid(format!(
                "the parameter {name} is a whole number from {} to {}",
                range.start(),
                range.end()
            ))),
        }
    }

    /// The most items of a page.
    pub(crate) fn limit(&self, usual: usize, most: usize) -> Result<usize, Refusal> {
        let limit = self.number("limit", 1..=most as u64)?;
        Ok(limit.map_or(usual, |limit| usize::try_from(limit).unwrap_or(most)))
    }

    /// `true` or `false`; false if it is not given.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.given(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Refusal::invalid(format!("the parameter {name} is true or false"))),
        }
    }

    /// A moment in RFC 3339, as Unix ms.
    pub(crate) fn moment(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.given(name) else { return Ok(None) };
        // A plus sign that was not encoded arrives as a space.
        let read = parse_rfc3339(text).or_else(|| parse_rfc3339(&text.replace(' ', "+")));
        let wrong = || Refusal::invalid(format!("the parameter {name} is a time like 2026-01-31T12:00:00Z"));
        read.map(Some).ok_or_else(wrong)
    }

    /// A value of an enumeration; its error completes the sentence.
    pub(crate) fn parsed<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let read = self.given(name).map(str::parse).transpose();
        read.map_err(|error: T::Err| {
            Refusal::invalid(format!("the parameter {name} cannot be used: {}", error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ProblemType, Status};

    fn read(query: &str) -> Result<Query, Refusal> {
        Query::read(Some(query), &["limit", "status", "from", "raw", "tag*"])
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        for wrong in ["limits=1", "limit=1&limit=2", "Limit=1", "=1"] {
            assert_eq!(read(wrong).unwrap_err().kind, ProblemType::InvalidRequest, "{wrong}");
        }
        let tags = read("tag=a:b&tag=c:d").unwrap();
        assert_eq!(tags.all("tag").collect::<Vec<_>>(), ["a:b", "c:d"]);
        assert!(Query::read(None, &[]).is_ok());
    }

    #[test]
    fn values_are_checked() {
        for wrong in ["limit=", "limit=0", "limit=101", "limit=-1", "limit=x", "limit=1.5"] {
            assert!(read(wrong).unwrap().limit(20, 100).is_err(), "{wrong}");
        }
        assert_eq!(read("limit=7").unwrap().limit(20, 100).unwrap(), 7);
        assert_eq!(read("").unwrap().limit(20, 100).unwrap(), 20);
        assert!(read("raw=yes").unwrap().flag("raw").is_err());
        assert!(read("raw=true").unwrap().flag("raw").unwrap());
        assert!(read("from=yesterday").unwrap().moment("from").is_err());
        let plus = read("from=2026-01-31T13:00:00+01:00").unwrap();
        assert_eq!(plus.moment("from").unwrap(), Some(1_769_860_800_000));
        assert!(read("status=Dreaming").unwrap().parsed::<Status>("status").is_err());
        let status = read("status=failed").unwrap().parsed("status").unwrap();
        assert_eq!(status, Some(Status::Failed));
    }
}
