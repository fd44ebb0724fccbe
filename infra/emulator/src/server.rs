//! The server: owns the account, listens at its listeners, and closes them when it is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::expiry;
use crate::listener::{Life, Listener};
use crate::options::{ServerOptions, StartError};
use crate::service::Service;
use crate::storage::Recovered;

/// A strict Cosmos account on this machine. Dropping it stops listening and closes every listener.
pub struct CosmosServer {
    service: Arc<Service>,
    first: Listener,
    others: Mutex<Vec<Listener>>,
}

impl CosmosServer {
    /// Starts an account with one listener: empty, or with what its data directory holds. Needs a Tokio runtime, and lives no
    /// longer than it.
    pub async fn start(options: ServerOptions) -> Result<CosmosServer, StartError> {
        // First: a port that is taken leaves the data directory untouched.
        let bound = bind(options.port).await?;
        let service = Service::start(&options).await?;
        let first = serve(bound, &service);
        Ok(CosmosServer {
            service,
            first,
            others: Mutex::default(),
        })
    }

    /// The first listener.
    pub fn listener(&self) -> &Listener {
        &self.first
    }

    /// What was in the data directory at the start; `None` without one.
    pub fn recovered(&self) -> Option<Recovered> {
        self.service.recovered()
    }

    /// Deletes what would have expired so much later; what is written afterwards lives its whole time.
    pub async fn expire_as_if(&self, later: Duration) {
        let later = u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
        self.service.expire(expiry::now().saturating_add(later)).await;
    }

    /// Closes every listener, forces the data directory to the disk, and gives it free for another server.
    ///
    /// A server that is dropped instead loses nothing, but its directory is free only when its last request has ended.
    pub async fn shutdown(self) -> std::io::Result<()> {
        let service = Arc::clone(&self.service);
        drop(self);
        service.close().await
    }

    /// Opens another port to the same account, with faults, counters and a log of its own.
    pub async fn open_listener(&self) -> Result<Listener, StartError> {
        let listener = serve(bind(0).await?, &self.service);
        self.others
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener.clone());
        Ok(listener)
    }

    /// Splits a physical partition into two, as the service does when one grows, and waits until it is done.
    /// Its id is then gone (410/1002), and its two children are in the list of ranges.
    pub async fn split_partition(&self, db: &str, container: &str, partition_id: u32) {
        self.service.split(db, container, partition_id).await;
    }

    /// The ids of a container's physical partitions; none if there is no such container.
    pub async fn partition_ids(&self, db: &str, container: &str) -> Vec<u32> {
        self.service.partition_ids(db, container).await
    }

    /// Brings the lagging region up to now, whatever its schedule; without a lag there is nothing to do.
    pub async fn catch_up(&self) {
        self.service.catch_up().await;
    }
}

impl Drop for CosmosServer {
    fn drop(&mut self) {
        self.first.stop();
        let others = self.others.get_mut().unwrap_or_else(PoisonError::into_inner);
        others.iter().for_each(Listener::stop);
    }
}

async fn bind(port: u16) -> Result<(TcpListener, SocketAddr), StartError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let failed = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn serve((socket, address): (TcpListener, SocketAddr), service: &Arc<Service>) -> Listener {
    let listener = Listener::new(address, Arc::clone(service));
    tokio::spawn(accept(socket, listener.clone()));
    listener
}

async fn accept(socket: TcpListener, listener: Listener) {
    let mut life = listener.watch();
    loop {
        let accepted = tokio::select! {
            _ = life.wait_for(|life| *life == Life::Stopped) => return,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if listener.life() == Life::Open => {
                tokio::spawn(connection(stream, listener.clone()));
            }
            // A dead listener takes connections only to close them.
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                // Out of file descriptors, most likely: trying again at once would only burn the processor.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, listener: Listener) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "the connection ended before it began");
        return;
    }
    let mut life = listener.watch();
    let serve = service_fn(|request| listener.serve(request));
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), serve);
    tokio::select! {
        _ = life.wait_for(|life| *life != Life::Open) => {}
        served = connection => if let Err(error) = served {
            tracing::debug!(%error, "a connection was closed");
        }
    }
}
