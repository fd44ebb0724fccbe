//! Making the database and the container, if they are not there.
//!
//! Invariants: what exists is never altered. A container with another partition key is refused, because its documents
//! could never be addressed; other differences are only reported, because the operator may have meant them.

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::Serialize;

use crate::Error;
use crate::client::CosmosClient;
use crate::observe::RequestKind;
use crate::request::{Consistency, Request};
use crate::resource::{self, ContainerName, Resource, Subject};
use crate::retry::Retry;
use crate::spec::{ContainerDescription, ContainerSpec, Throughput};

/// Whether something had to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// It was made now.
    Created,
    /// It was there.
    Existed,
}

impl CosmosClient {
    /// Makes the database if it does not exist. `throughput` is what its containers share, if they are to.
    pub async fn ensure_database(&self, name: &str, throughput: Option<&Throughput>) -> Result<Ensured, Error> {
        #[derive(Serialize)]
        struct Database<'a> {
            id: &'a str,
        }
        let throughput = throughput.copied().unwrap_or(Throughput::Serverless);
        self.make(
            resource::databases(),
            Subject::Database(name),
            &Database { id: name },
            throughput,
        )
        .await
    }

    /// Makes the container if it does not exist, and checks its partition key if it does.
    pub async fn ensure_container(&self, database: &str, spec: &ContainerSpec) -> Result<Ensured, Error> {
        let name = ContainerName {
            database: database.to_owned(),
            container: spec.name.clone(),
        };
        let made = self
            .make(
                name.siblings(),
                Subject::Container(&name),
                &spec.body(),
                spec.throughput,
            )
            .await?;
        match made {
            Ensured::Created => self.shared(database, &spec.name).forget(),
            Ensured::Existed => {
                // Deleted in between is rare enough to leave to the next request, which says that it is missing.
                if let Some(found) = self.read_container(database, &spec.name).await? {
                    compare(&name, spec, &found)?;
                }
            }
        }
        Ok(made)
    }

    /// The container as it is, or `None` if it does not exist.
    pub async fn read_container(&self, database: &str, container: &str) -> Result<Option<ContainerDescription>, Error> {
        let name = ContainerName {
            database: database.to_owned(),
            container: container.to_owned(),
        };
        let request = Request {
            kind: RequestKind::Metadata,
            method: Method::GET,
            resource: name.itself(),
            headers: HeaderMap::new(),
            body: None,
            retry: Retry::Idempotent,
            subject: Subject::Container(&name),
            consistency: Consistency::Apart,
        };
        match self.transport().send(&request, self.transport().deadline(None)).await {
            Ok(answer) => serde_json::from_slice(&answer.body)
                .map(Some)
                .map_err(|source| Error::Decode {
                    what: format!("the description of container {}", name.shown()),
                    source,
                }),
            Err(Error::NotFound { .. } | Error::ContainerMissing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make<T: Serialize>(
        &self,
        resource: Resource,
        subject: Subject<'_>,
        body: &T,
        throughput: Throughput,
    ) -> Result<Ensured, Error> {
        let body = serde_json::to_vec(body).map_err(|source| Error::Encode {
            what: subject.describe(),
            source,
        })?;
        let mut headers = HeaderMap::new();
        throughput.write_to(&mut headers)?;
        let request = Request {
            kind: RequestKind::Metadata,
            method: Method::POST,
            resource,
            headers,
            body: Some(Bytes::from(body)),
            retry: Retry::Idempotent,
            subject,
            consistency: Consistency::Apart,
        };
        match self.transport().send(&request, self.transport().deadline(None)).await {
            Ok(_) => Ok(Ensured::Created),
            Err(Error::Conflict { .. }) => Ok(Ensured::Existed),
            Err(error) => Err(error),
        }
    }
}

fn compare(name: &ContainerName, spec: &ContainerSpec, found: &ContainerDescription) -> Result<(), Error> {
    let container = name.shown();
    for difference in spec.differences(found) {
        if difference.fatal {
            return Err(Error::ContainerMismatch {
                container: format!("{}/{}", name.database, name.container),
                found: difference.found,
                expected: difference.expected,
            });
        }
        tracing::warn!(container, %difference, "the container differs; left as it is");
    }
    Ok(())
}
