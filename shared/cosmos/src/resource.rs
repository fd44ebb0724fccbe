//! What a request is addressed to: the link that is signed, the path that is sent, the description in errors.
//!
//! Invariant: link and path name the same resource, the link raw and the path percent-encoded.

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use crate::error::Error;
use crate::partition_key::PartitionKey;

const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b':');

/// The longest id that the service accepts.
pub(crate) const MAX_ID_BYTES: usize = 1_023;

/// Type, signed link and URL path of a resource.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) kind: &'static str,
    pub(crate) link: String,
    pub(crate) path: String,
}

/// The names of a container and its database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContainerName {
    pub(crate) database: String,
    pub(crate) container: String,
}

impl ContainerName {
    pub(crate) fn new(database: &str, container: &str) -> ContainerName {
        ContainerName {
            database: database.to_owned(),
            container: container.to_owned(),
        }
    }

    pub(crate) fn shown(&self) -> String {
        format!("`{}/{}`", self.database, self.container)
    }

    fn link(&self) -> String {
        format!("dbs/{}/colls/{}", self.database, self.container)
    }

    fn path(&self) -> String {
        format!("/dbs/{}/colls/{}", encode(&self.database), encode(&self.container))
    }

    /// The container itself.
    pub(crate) fn itself(&self) -> Resource {
        Resource {
            kind: "colls",
            link: self.link(),
            path: self.path(),
        }
    }

    /// All documents: create, upsert, query and batch are addressed to it.
    pub(crate) fn documents(&self) -> Resource {
        Resource {
            kind: "docs",
            link: self.link(),
            path: format!("{}/docs", self.path()),
        }
    }

    /// One document.
    pub(crate) fn document(&self, id: &str) -> Result<Resource, Error> {
        check_id(id)?;
        Ok(Resource {
            kind: "docs",
            link: format!("{}/docs/{id}", self.link()),
            path: format!("{}/docs/{}", self.path(), encode(id)),
        })
    }

    /// The physical ranges.
    pub(crate) fn ranges(&self) -> Resource {
        Resource {
            kind: "pkranges",
            link: self.link(),
            path: format!("{}/pkranges", self.path()),
        }
    }

    /// The database's list of containers.
    pub(crate) fn siblings(&self) -> Resource {
        Resource {
            kind: "colls",
            link: format!("dbs/{}", self.database),
            path: format!("/dbs/{}/colls", encode(&self.database)),
        }
    }
}

/// The account's list of databases.
pub(crate) fn databases() -> Resource {
    Resource {
        kind: "dbs",
        link: String::new(),
        path: "/dbs".to_owned(),
    }
}

fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, PATH_SEGMENT).to_string()
}

fn check_id(id: &str) -> Result<(), Error> {
    let refuse = |reason| {
        Err(Error::InvalidId {
            id: id.chars().take(80).collect(),
            reason,
        })
    };
    if id.is_empty() {
        return refuse("it is empty");
    }
    if id.len() > MAX_ID_BYTES {
        return refuse("it has over 1,023 bytes");
    }
    if id.contains(['/', '\\', '?', '#']) {
        return refuse("it has one of / \\ ? #");
    }
    if id == "." || id == ".." {
        return refuse("a URL cannot address it");
    }
    Ok(())
}

/// What a request is about. Becomes text only for an error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A document whose id is known.
    Document {
        container: &'a ContainerName,
        partition: &'a PartitionKey,
        id: &'a str,
    },
    /// A document whose id is in the body.
    Body {
        container: &'a ContainerName,
        partition: &'a PartitionKey,
        body: &'a Bytes,
    },
    /// A logical partition.
    Partition {
        container: &'a ContainerName,
        partition: &'a PartitionKey,
    },
    /// A physical range.
    Range {
        container: &'a ContainerName,
        range: &'a str,
    },
    /// The container as a whole.
    Container(&'a ContainerName),
    /// A database.
    Database(&'a str),
}

impl Subject<'_> {
    /// The name of the container; empty for a database.
    pub(crate) fn container(&self) -> &str {
        match self {
            Subject::Document { container, .. }
            | Subject::Body { container, .. }
            | Subject::Partition { container, .. }
            | Subject::Range { container, .. }
            | Subject::Container(container) => &container.container,
            Subject::Database(_) => "",
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Subject::Document {
                container,
                partition,
                id,
            } => described(id, partition, container),
            Subject::Body {
                container,
                partition,
                body,
            } => described(id_of(body).as_deref().unwrap_or("(without id)"), partition, container),
            Subject::Partition { container, partition } => {
                format!("partition `{}` in {}", partition.as_str(), container.shown())
            }
            Subject::Range { container, range } => {
                format!("physical range {range} of {}", container.shown())
            }
            Subject::Container(container) => format!("container {}", container.shown()),
            Subject::Database(name) => format!("database `{name}`"),
        }
    }
}

fn described(id: &str, partition: &PartitionKey, container: &ContainerName) -> String {
    format!(
        "document `{id}` of partition `{}` in {}",
        partition.as_str(),
        container.shown()
    )
}

/// The id in a document's JSON.
pub(crate) fn id_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    serde_json::from_slice::<Identified>(body)
        .ok()
        .map(|identified| identified.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_encoded_and_the_link_is_not() {
        let name = ContainerName::new("my db", "c%1");
        let resource = name.document("a%b:日.1_-").unwrap();
        assert_eq!(resource.link, "dbs/my db/colls/c%1/docs/a%b:日.1_-");
        assert_eq!(resource.path, "/dbs/my%20db/colls/c%251/docs/a%25b:%E6%97%A5.1_-");
        assert_eq!(name.documents().link, "dbs/my db/colls/c%1");
    }

    #[test]
    fn an_id_that_cannot_be_addressed_is_refused() {
        let name = ContainerName::new("d", "c");
        for bad in ["", "a/b", "a\\b", "a?b", "a#b", ".", "..", &"x".repeat(1_024)] {
            assert!(matches!(name.document(bad), Err(Error::InvalidId { .. })), "{bad}");
        }
        assert!(name.document(&"x".repeat(1_023)).is_ok());
    }
}
