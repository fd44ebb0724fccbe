//! Microsoft's in-memory emulator. This is the only file that names its crate.
//!
//! The account has one write region. With a lag it has two more, between which `replica` alternates. Their replication stays
//! paused, with the missing writes in a buffer, until [`Emulator::catch_up`] applies the whole buffer in one step. So a replica
//! always shows the state of one moment. The emulator's own replication delays would release documents one by one, in no
//! particular order, and batches in pieces.

use std::sync::Arc;
use std::time::Duration;

use azure_core::http::headers::{HeaderName as CoreName, HeaderValue as CoreValue};
use azure_core::http::{Method as CoreMethod, Request, Url};
use azure_data_cosmos_driver::in_memory_emulator::{
    ConsistencyLevel, ContainerConfig, EmulatorStore, InMemoryEmulatorHttpClient, ReplicationConfig,
    VirtualAccountConfig, VirtualRegion,
};
use azure_data_cosmos_driver::models::PartitionKeyDefinition;
use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::http::{Call, MAX_ITEM_COUNT, Reply, ascii};
use crate::index::{Found, Indexes};
use crate::kind::RequestKind;
use crate::options::StartError;

/// Which copy of the data answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    Write,
    Replica(usize),
}

/// How many lagging replicas there are when there is a lag.
pub(crate) const REPLICAS: usize = 2;

const NAMES: [&str; 1 + REPLICAS] = ["West Europe", "North Europe", "France Central"];
const HOSTS: [&str; 1 + REPLICAS] = [
    "https://write.local",
    "https://replica-0.local",
    "https://replica-1.local",
];

impl Region {
    fn index(self) -> usize {
        match self {
            Self::Write => 0,
            Self::Replica(replica) => 1 + replica,
        }
    }
}

/// The store of one account.
pub(crate) struct Emulator {
    client: InMemoryEmulatorHttpClient,
    store: Arc<EmulatorStore>,
    indexes: Indexes,
}

impl Emulator {
    pub(crate) fn new(with_replicas: bool) -> Result<Self, StartError> {
        let regions = if with_replicas { 1 + REPLICAS } else { 1 };
        let regions = (0..regions)
            .map(|index| {
                let url = Url::parse(HOSTS[index]).map_err(|error| StartError::Emulator(error.to_string()))?;
                Ok(VirtualRegion::new(NAMES[index], url))
            })
            .collect::<Result<Vec<_>, StartError>>()?;
        // The buffer of a paused replica must not delay writers: the lag affects reads only.
        let replication = ReplicationConfig::immediate().with_max_buffered_replications(usize::MAX - 1);
        let config = VirtualAccountConfig::new(regions)
            .map_err(|error| StartError::Emulator(error.to_string()))?
            .with_consistency(ConsistencyLevel::Session)
            .with_replication_config(replication);
        let client =
            InMemoryEmulatorHttpClient::try_new(config).map_err(|error| StartError::Emulator(error.to_string()))?;
        let store = client.store();
        if with_replicas {
            NAMES[1..].iter().for_each(|name| store.pause_replication(name));
        }
        Ok(Self {
            client,
            store,
            indexes: Indexes::default(),
        })
    }

    /// Executes a request: a query by the index, if that knows it.
    pub(crate) async fn execute(&self, region: Region, call: &Call) -> Reply {
        if region != Region::Write {
            return self.carry_out(region, call).await;
        }
        if call.kind.is_write() {
            let _noted = self.indexes.writing(call).await;
            let reply = self.carry_out(region, call).await;
            self.indexes.note_size(call, &reply);
            return reply;
        }
        if call.kind == RequestKind::Metadata && call.method != Method::GET && !call.is_query() {
            let _noted = self.indexes.writing(call).await;
            let reply = self.carry_out(region, call).await;
            // Whatever it was: containers change so rarely that copying them again does not matter.
            self.indexes.forget();
            return reply;
        }
        match self.find(region, call).await {
            Some(Ok(found)) => {
                let count = call.header(MAX_ITEM_COUNT).and_then(|count| count.trim().parse().ok());
                found.into_reply(count.filter(|&count| count > 0))
            }
            Some(Err(reply)) => reply,
            None => self.carry_out(region, call).await,
        }
    }

    /// What the index finds for a query; `None` if it does not serve it, and a reply if the service refuses it.
    pub(crate) async fn find(&self, region: Region, call: &Call) -> Option<Result<Found, Reply>> {
        match region {
            Region::Write => self.indexes.find(self, call).await,
            Region::Replica(_) => None,
        }
    }

    /// The indexes, to prepare a test.
    #[cfg(test)]
    pub(crate) fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Executes a request by Microsoft's emulator.
    pub(crate) async fn carry_out(&self, region: Region, call: &Call) -> Reply {
        let request = match core_request(region, call) {
            Ok(request) => request,
            Err(message) => return Reply::error(StatusCode::BAD_REQUEST, None, &message),
        };
        let response = match self.client.execute_request(&request).await {
            Ok(response) => response,
            Err(error) => {
                return Reply::error(StatusCode::INTERNAL_SERVER_ERROR, None, &error.to_string());
            }
        };
        let raw = match response.try_into_raw_response().await {
            Ok(raw) => raw,
            Err(error) => {
                return Reply::error(StatusCode::INTERNAL_SERVER_ERROR, None, &error.to_string());
            }
        };
        let mut headers = HeaderMap::with_capacity(24);
        for (name, value) in raw.headers().iter() {
            let name = HeaderName::from_bytes(name.as_str().as_bytes());
            // A continuation token may have an id beyond ASCII, with which no request could be sent.
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&ascii(value.as_str()))) {
                headers.insert(name, value);
            }
        }
        let status = StatusCode::from_u16(u16::from(raw.status())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body: &[u8] = raw.body().as_ref();
        Reply {
            status,
            headers,
            body: Bytes::copy_from_slice(body),
        }
    }

    /// Creates a container with several physical partitions, which a create request to the emulator cannot do.
    ///
    /// The database must exist, and the container must not.
    pub(crate) fn create_container(
        &self,
        db: &str,
        container: &str,
        partition_key: &Value,
        partitions: u32,
    ) -> Result<(), String> {
        let definition: PartitionKeyDefinition =
            serde_json::from_value(partition_key.clone()).map_err(|error| error.to_string())?;
        let config = ContainerConfig::new()
            .with_partition_count(partitions)
            .build()
            .map_err(|error| error.to_string())?;
        self.store
            .create_container_with_config(db, container, definition, config);
        Ok(())
    }

    /// Brings a replica up to date with the write region. No write, and no read of that replica, may be in progress.
    pub(crate) fn catch_up(&self, replica: usize) {
        let name = NAMES[1 + replica];
        self.store.resume_replication(name);
        self.store.pause_replication(name);
    }

    /// Splits a physical partition into two, in all regions.
    pub(crate) async fn split(&self, db: &str, container: &str, partition_id: u32) {
        self.store.split_partition(db, container, partition_id, Duration::ZERO);
        self.store.wait_for_split(db, container, partition_id).await;
    }
}

fn core_request(region: Region, call: &Call) -> Result<Request, String> {
    let url = format!("{}{}", HOSTS[region.index()], call.path);
    let url = Url::parse(&url).map_err(|error| format!("The path is not valid: {error}"))?;
    let method = match call.method {
        Method::GET => CoreMethod::Get,
        Method::POST => CoreMethod::Post,
        Method::PUT => CoreMethod::Put,
        Method::DELETE => CoreMethod::Delete,
        Method::HEAD => CoreMethod::Head,
        _ => {
            return Err(format!(
                "The method {} is not supported by this test server.",
                call.method
            ));
        }
    };
    let mut request = Request::new(url, method);
    for (name, value) in &call.headers {
        // The emulator does not need these.
        if matches!(
            name.as_str(),
            "authorization" | "host" | "content-length" | "user-agent" | "accept"
        ) {
            continue;
        }
        if let Ok(value) = value.to_str() {
            request.headers_mut().insert(
                CoreName::from(name.as_str().to_owned()),
                CoreValue::from(value.to_owned()),
            );
        }
    }
    if !call.body.is_empty() {
        request.set_body(call.body.clone());
    }
    Ok(request)
}
