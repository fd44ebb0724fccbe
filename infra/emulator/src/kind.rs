//! The kind of a request, derived once from its method, path and headers.

use hyper::Method;
use hyper::header::HeaderMap;

use crate::http::{IS_BATCH, IS_QUERY, IS_QUERY_PLAN, IS_UPSERT, PARTITION_KEY, RANGE_ID, is_true};

/// The kinds of request that are counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A point read of one document.
    Read,
    /// A query, or a listing, of one logical partition.
    Query,
    /// A query, or a listing, of one physical partition or of the whole container.
    CrossPartitionQuery,
    /// A create of one document.
    Create,
    /// A replace of one document.
    Replace,
    /// An upsert of one document.
    Upsert,
    /// A PATCH of one document.
    Patch,
    /// A delete of one document.
    Delete,
    /// A transactional batch.
    Batch,
    /// The list of the physical partitions.
    PkRanges,
    /// Requests about the account, databases, containers, offers and query plans, and everything else.
    Metadata,
}

impl RequestKind {
    /// Whether the request changes documents.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Replace | Self::Upsert | Self::Patch | Self::Delete | Self::Batch
        )
    }

    /// Whether the request only reads documents.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Query | Self::CrossPartitionQuery)
    }

    /// Whether the request is about documents: only those are hit by faults.
    pub fn is_document(self) -> bool {
        self.is_write() || self.is_read()
    }
}

pub(crate) fn classify(method: &Method, segments: &[String], headers: &HeaderMap) -> RequestKind {
    let inside_container = segments.len() >= 5 && segments[0] == "dbs" && segments[2] == "colls" && segments.len() <= 6;
    if !inside_container {
        return RequestKind::Metadata;
    }
    let feed = || {
        if headers.contains_key(PARTITION_KEY) && !headers.contains_key(RANGE_ID) {
            RequestKind::Query
        } else {
            RequestKind::CrossPartitionQuery
        }
    };
    match (method.as_str(), segments[4].as_str(), segments.len()) {
        ("GET", "pkranges", 5) => RequestKind::PkRanges,
        ("GET", "docs", 5) => feed(),
        ("POST", "docs", 5) if is_true(headers, IS_QUERY_PLAN) => RequestKind::Metadata,
        ("POST", "docs", 5) if is_true(headers, IS_QUERY) => feed(),
        ("POST", "docs", 5) if is_true(headers, IS_BATCH) => RequestKind::Batch,
        ("POST", "docs", 5) if is_true(headers, IS_UPSERT) => RequestKind::Upsert,
        ("POST", "docs", 5) => RequestKind::Create,
        ("GET", "docs", 6) => RequestKind::Read,
        ("PUT", "docs", 6) => RequestKind::Replace,
        ("PATCH", "docs", 6) => RequestKind::Patch,
        ("DELETE", "docs", 6) => RequestKind::Delete,
        _ => RequestKind::Metadata,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn kind_of(method: &str, path: &str, headers: &[&'static str]) -> RequestKind {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let headers = headers
            .iter()
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("True")))
            .collect();
        classify(&method, &segments, &headers)
    }

    #[test]
    fn the_kind_of_a_request_follows_from_method_path_and_headers() {
        let docs = "/dbs/d/colls/c/docs";
        let one = "/dbs/d/colls/c/docs/x";
        for (method, path, headers, expected) in [
            ("GET", "/", &[][..], RequestKind::Metadata),
            ("POST", "/dbs/d/colls", &[], RequestKind::Metadata),
            ("GET", "/dbs/d/colls/c/pkranges", &[], RequestKind::PkRanges),
            ("GET", one, &[], RequestKind::Read),
            ("PUT", one, &[], RequestKind::Replace),
            ("PATCH", one, &[], RequestKind::Patch),
            ("DELETE", one, &[], RequestKind::Delete),
            ("POST", docs, &[], RequestKind::Create),
            ("POST", docs, &[IS_UPSERT], RequestKind::Upsert),
            ("POST", docs, &[IS_BATCH], RequestKind::Batch),
            ("POST", docs, &[IS_QUERY], RequestKind::CrossPartitionQuery),
            ("POST", docs, &[IS_QUERY, PARTITION_KEY], RequestKind::Query),
            (
                "POST",
                docs,
                &[IS_QUERY, PARTITION_KEY, RANGE_ID],
                RequestKind::CrossPartitionQuery,
            ),
            ("POST", docs, &[IS_QUERY, IS_QUERY_PLAN], RequestKind::Metadata),
            ("GET", docs, &[PARTITION_KEY], RequestKind::Query),
        ] {
            assert_eq!(kind_of(method, path, headers), expected, "{method} {path} {headers:?}");
        }
    }
}
