//! Creates the database and the container, if they do not exist.
//!
//! Invariants: what exists is never changed. A container with another partition key is refused, because its documents
//! could not be addressed; other differences are only logged, because the operator may intend them.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use reqwest::Method;
use serde::Serialize;

use crate::client::CosmosClient;
use crate::container::Container;
use crate::error::Error;
use crate::headers;
use crate::observe::RequestKind;
use crate::request::{Answer, Request};
use crate::resource::{self, ContainerName, Resource, Subject};
use crate::spec::{ContainerDescription, ContainerSpec, Throughput};

/// Whether something had to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// It was created now.
    Created,
    /// It existed already.
    Existed,
}

/// A container as the service describes it, and when it did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Described {
    /// The container.
    pub description: ContainerDescription,
    /// The service's clock at its answer (Unix ms, in whole seconds), if the answer has a date.
    pub server_ms: Option<u64>,
}

impl Container {
    /// The container as it is, or `None` if it does not exist.
    pub async fn describe(&self) -> Result<Option<Described>, Error> {
        let name = self.name();
        described(name, self.send(&reading(name)).await)
    }
}

impl CosmosClient {
    /// Creates the database if it does not exist. Its containers share `throughput`, if given.
    pub async fn ensure_database(&self, name: &str, throughput: Option<&Throughput>) -> Result<Ensured, Error> {
        #[derive(Serialize)]
        struct Database<'a> {
            id: &'a str,
        }
        let throughput = throughput.copied().unwrap_or(Throughput::Serverless);
        let (subject, body) = (Subject::Database(name), Database { id: name });
        self.ensure(resource::databases(), subject, &body, throughput).await
    }

    /// Creates the container if it does not exist, and checks its partition key if it does.
    pub async fn ensure_container(&self, database: &str, spec: &ContainerSpec) -> Result<Ensured, Error> {
        let name = ContainerName::new(database, &spec.name);
        let subject = Subject::Container(&name);
        let ensured = self
            .ensure(name.siblings(), subject, &spec.body(), spec.throughput)
            .await?;
        match ensured {
            Ensured::Created => self.shared(&name).forget(),
            Ensured::Existed => {
                // If it was deleted in between, the next request fails with `ContainerMissing`.
                if let Some(found) = self.read_container(database, &spec.name).await? {
                    compare(&name, spec, &found)?;
                }
            }
        }
        Ok(ensured)
    }

    /// The container as it is, or `None` if it does not exist.
    pub async fn read_container(&self, database: &str, container: &str) -> Result<Option<ContainerDescription>, Error> {
        let name = ContainerName::new(database, container);
        let (request, deadline) = (reading(&name), self.transport().deadline(None));
        let answer = self.transport().send(&request, deadline, None).await;
        Ok(described(&name, answer)?.map(|found| found.description))
    }

    async fn ensure<T: Serialize>(
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
        let mut request = Request::new(RequestKind::Metadata, Method::POST, resource, subject);
        request.body = Some(Bytes::from(body));
        throughput.write_to(&mut request.headers)?;
        match self
            .transport()
            .send(&request, self.transport().deadline(None), None)
            .await
        {
            Ok(_) => Ok(Ensured::Created),
            Err(Error::Conflict { .. }) => Ok(Ensured::Existed),
            Err(error) => Err(error),
        }
    }
}

/// The request that reads a container's definition.
fn reading(name: &ContainerName) -> Request<'_> {
    Request::new(
        RequestKind::Metadata,
        Method::GET,
        name.itself(),
        Subject::Container(name),
    )
}

fn described(name: &ContainerName, answer: Result<Answer, Error>) -> Result<Option<Described>, Error> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Error::NotFound { .. } | Error::ContainerMissing { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let description = serde_json::from_slice(&answer.body).map_err(|source| Error::Decode {
        what: format!("the description of container {}", name.shown()),
        source,
    })?;
    let date = headers::text(&answer.headers, &reqwest::header::DATE);
    let at = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(Some(Described {
        description,
        server_ms: since.and_then(|since| u64::try_from(since.as_millis()).ok()),
    }))
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
        tracing::warn!(container, %difference, "the container differs from its specification and is left as it is");
    }
    Ok(())
}
