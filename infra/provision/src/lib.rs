//! The database and container of a deployment: [`Store::ensure`] creates or verifies them, [`Store::verify`] only verifies.
//!
//! The binary `provision` and `duroxide-lambda deploy` call it. Neither changes what exists: each difference is described, with what to do.
//! With a token of Entra ID instead of the key it can only verify: the service lets no token create databases or containers.

mod credential;
mod throughput;

pub use cosmos::Throughput;
pub use credential::{Credential, CredentialError};
pub use throughput::throughput;

use cosmos::{ClientConfig, CosmosClient, Difference, Ensured, StaticKey, StaticToken};
use duroxide_cosmos::container_spec;

/// Why nothing is known of the container.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ProvisionError {
    #[error("COSMOS_ENDPOINT cannot be used")]
    Endpoint(#[source] cosmos::Error),
    #[error("the database was not created")]
    Database(#[source] cosmos::Error),
    #[error("the container was not created")]
    Container(#[source] cosmos::Error),
    #[error(
        "container {0} is missing, and a token of Entra ID cannot create databases or containers: deploy \
         azure/cosmos.bicep, which `duroxide-lambda deploy files DIR` writes, or set COSMOS_KEY instead of COSMOS_TOKEN"
    )]
    MayNotCreate(String),
    #[error(
        "container {name} is missing, and the account does not let its key create databases or containers \
         (disableKeyBasedMetadataWriteAccess): deploy azure/cosmos.bicep, which `duroxide-lambda deploy files DIR` writes, with \
         databaseName and containerName and all other parameters of this account"
    )]
    KeyMayNotCreate {
        name: String,
        #[source]
        source: cosmos::Error,
    },
    #[error(transparent)]
    Store(#[from] cosmos::Error),
}

/// What was found, or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whether the container is as the functions need it.
    pub as_expected: bool,
    /// What to print: what was created, each difference, what to do.
    pub lines: Vec<String>,
}

/// A connection to the account of one container.
pub struct Store {
    client: CosmosClient,
    may_create: bool,
    database: String,
    container: String,
}

impl Store {
    /// Connects to the account. The first request is the first use.
    pub fn connect(
        endpoint: &str,
        database: &str,
        container: &str,
        credential: Credential,
    ) -> Result<Store, ProvisionError> {
        let may_create = credential.may_create();
        let config = match credential {
            Credential::Key(key) => ClientConfig::new(endpoint, StaticKey::new(key)),
            Credential::Token(token) => ClientConfig::new(endpoint, StaticToken::new(token)),
        };
        Ok(Store {
            client: CosmosClient::new(config.map_err(ProvisionError::Endpoint)?),
            may_create,
            database: database.to_owned(),
            container: container.to_owned(),
        })
    }

    /// Creates what does not exist, and verifies what does.
    pub async fn ensure(&self, throughput: Throughput) -> Result<Found, ProvisionError> {
        let spec = container_spec(&self.container, throughput);
        let mut lines = Vec::new();
        // Read first: an account may refuse changes of containers by key, and an existing container needs none.
        if self.client.read_container(&self.database, &spec.name).await?.is_none() {
            if !self.may_create {
                return Err(ProvisionError::MayNotCreate(self.name()));
            }
            let database = self.client.ensure_database(&self.database, None).await;
            let database = database.map_err(|error| self.not_created(error, ProvisionError::Database))?;
            lines.push(format!("database {}: {}", self.database, described(database)));
            let container = self.client.ensure_container(&self.database, &spec).await;
            let container = container.map_err(|error| self.not_created(error, ProvisionError::Container))?;
            lines.push(format!("container {}: {}", self.name(), described(container)));
        }
        self.compare(lines).await
    }

    /// Verifies, and creates nothing.
    pub async fn verify(&self) -> Result<Found, ProvisionError> {
        self.compare(Vec::new()).await
    }

    async fn compare(&self, mut lines: Vec<String>) -> Result<Found, ProvisionError> {
        let name = self.name();
        let spec = container_spec(&self.container, Throughput::Serverless);
        let Some(found) = self.client.read_container(&self.database, &spec.name).await? else {
            lines.push(format!(
                "container {name}: missing. Create it with azure/cosmos.bicep, which `duroxide-lambda deploy files DIR` writes, or with \
                 COSMOS_KEY if the account allows that to its key"
            ));
            return Ok(Found {
                as_expected: false,
                lines,
            });
        };
        let differences = spec.differences(&found);
        if differences.is_empty() {
            lines.push(format!("container {name}: as expected"));
        } else {
            let each = differences.iter();
            lines.extend(each.map(|difference| format!("container {name}: {difference}")));
            lines.push(what_to_do(&differences).to_owned());
        }
        Ok(Found {
            as_expected: differences.is_empty(),
            lines,
        })
    }

    /// Reading worked before, so what forbids creating is a setting of the account.
    fn not_created(&self, error: cosmos::Error, other: fn(cosmos::Error) -> ProvisionError) -> ProvisionError {
        match error {
            source @ cosmos::Error::Forbidden { .. } => ProvisionError::KeyMayNotCreate {
                name: self.name(),
                source,
            },
            error => other(error),
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.database, self.container)
    }
}

fn what_to_do(differences: &[Difference]) -> &'static str {
    match differences.iter().all(Difference::is_changeable) {
        true => {
            "Nothing was changed. If the differences are not intended, change the container (azure/cosmos.bicep of \
             `duroxide-lambda deploy files DIR` does), then run this again."
        }
        false => {
            "Nothing was changed. A partition key and its version cannot be changed in place: choose another container name."
        }
    }
}

fn described(ensured: Ensured) -> &'static str {
    match ensured {
        Ensured::Created => "created",
        Ensured::Existed => "exists",
    }
}
