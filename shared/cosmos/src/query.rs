//! Queries within one logical partition.
//!
//! With the partition key header the service answers any query, ORDER BY and aggregates included. Over all partitions
//! it does not: see `sweep.rs`, which shares the headers and the reading of pages.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::container::Container;
use crate::error::Error;
use crate::headers;
use crate::observe::RequestKind;
use crate::partition_key::PartitionKey;
use crate::request::{Answer, Consistency, Request};
use crate::resource::Subject;

/// A query's text and parameters.
#[derive(Debug)]
pub struct Query {
    text: String,
    parameters: Vec<Parameter>,
    /// The first parameter that is no JSON, with the reason; reported when the query is sent.
    broken: Option<(String, String)>,
}

#[derive(Debug, Serialize)]
struct Parameter {
    name: String,
    value: Box<RawValue>,
}

/// Where a page starts and how long it may be.
#[derive(Clone, Debug, Default)]
pub struct PageOptions {
    /// The most items; the service may give fewer. `None` leaves it to the service.
    pub max_items: Option<u32>,
    /// The [`Page::continuation`] of the page before.
    pub continuation: Option<String>,
}

/// One page of a query's result.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The items, possibly none even if there are more pages.
    pub items: Vec<T>,
    /// Where the next page starts; `None` when this is the last.
    pub continuation: Option<String>,
}

impl Query {
    /// A query in the service's SQL, with `@name` for parameters.
    pub fn new(text: impl Into<String>) -> Query {
        Query {
            text: text.into(),
            parameters: Vec::new(),
            broken: None,
        }
    }

    /// Gives the parameter `name`, such as `@now`, its value.
    pub fn param(mut self, name: &str, value: impl Serialize) -> Query {
        match serde_json::value::to_raw_value(&value) {
            Ok(value) => self.parameters.push(Parameter {
                name: name.to_owned(),
                value,
            }),
            Err(error) if self.broken.is_none() => self.broken = Some((name.to_owned(), error.to_string())),
            Err(_) => {}
        }
        self
    }

    /// The request's body.
    pub(crate) fn body(&self) -> Result<Bytes, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            query: &'a str,
            parameters: &'a [Parameter],
        }
        if let Some((name, problem)) = &self.broken {
            let source = serde::ser::Error::custom(problem);
            return Err(Error::Encode {
                what: format!("the query parameter {name}"),
                source,
            });
        }
        let body = Body {
            query: &self.text,
            parameters: &self.parameters,
        };
        let body = serde_json::to_vec(&body).map_err(|source| Error::Encode {
            what: "a query".to_owned(),
            source,
        })?;
        Ok(Bytes::from(body))
    }
}

/// The headers of every query.
pub(crate) fn query_headers(max_items: Option<u32>, continuation: Option<&str>) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/query+json"));
    headers::flag(&mut map, headers::IS_QUERY, "True");
    match max_items {
        Some(count) => headers::insert(&mut map, headers::MAX_ITEMS, &count.to_string())?,
        // As many as fit the service's page of 4 MB.
        None => headers::flag(&mut map, headers::MAX_ITEMS, "-1"),
    }
    if let Some(continuation) = continuation {
        headers::insert(&mut map, headers::CONTINUATION, continuation)?;
    }
    Ok(map)
}

/// The items of a query's answer, and where the next page starts.
pub(crate) fn read_page<T: DeserializeOwned>(request: &Request<'_>, answer: &Answer) -> Result<Page<T>, Error> {
    #[derive(Deserialize)]
    struct Feed<T> {
        #[serde(rename = "Documents")]
        documents: Vec<T>,
    }
    let feed: Feed<T> = serde_json::from_slice(&answer.body).map_err(|source| Error::Decode {
        what: format!("the result of a query of {}", request.subject.describe()),
        source,
    })?;
    let continuation = headers::text(&answer.headers, &headers::CONTINUATION).filter(|text| !text.is_empty());
    Ok(Page {
        items: feed.documents,
        continuation: continuation.map(str::to_owned),
    })
}

impl Container {
    /// One page of a query within a logical partition.
    pub async fn query_page<T: DeserializeOwned>(
        &self,
        pk: &PartitionKey,
        query: &Query,
        page: &PageOptions,
    ) -> Result<Page<T>, Error> {
        self.partition_page(pk, query.body()?, page).await
    }

    /// All pages of a query within a logical partition.
    pub async fn query<T: DeserializeOwned>(&self, pk: &PartitionKey, query: &Query) -> Result<Vec<T>, Error> {
        let body = query.body()?;
        let mut options = PageOptions::default();
        let mut items = Vec::new();
        loop {
            let page = self.partition_page(pk, body.clone(), &options).await?;
            items.extend(page.items);
            options.continuation = page.continuation;
            if options.continuation.is_none() {
                return Ok(items);
            }
        }
    }

    async fn partition_page<T: DeserializeOwned>(
        &self,
        pk: &PartitionKey,
        body: Bytes,
        page: &PageOptions,
    ) -> Result<Page<T>, Error> {
        let mut map = query_headers(page.max_items, page.continuation.as_deref())?;
        headers::insert(&mut map, headers::PARTITION_KEY, &pk.header())?;
        let subject = Subject::Partition {
            container: self.name(),
            partition: pk,
        };
        let request = Request {
            headers: map,
            body: Some(body),
            consistency: Consistency::Full(self.consistency()),
            ..Request::new(RequestKind::Query, Method::POST, self.name().documents(), subject)
        };
        let answer = self.send(&request).await?;
        read_page(&request, &answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_sent_as_values_and_never_as_query_text() {
        let query = Query::new("SELECT * FROM c WHERE c.a = @a AND c.b < @b")
            .param("@a", "x' OR 1=1")
            .param("@b", 3);
        let body: serde_json::Value = serde_json::from_slice(&query.body().unwrap()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({
                "query": "SELECT * FROM c WHERE c.a = @a AND c.b < @b",
                "parameters": [{"name": "@a", "value": "x' OR 1=1"}, {"name": "@b", "value": 3}],
            })
        );
    }

    #[test]
    fn a_parameter_that_is_no_json_is_reported_when_the_query_is_sent() {
        let broken = std::collections::BTreeMap::from([((1, 2), "such keys are no JSON")]);
        let error = Query::new("SELECT 1").param("@broken", broken).body().unwrap_err();
        assert!(error.to_string().contains("@broken"), "{error}");
    }
}
