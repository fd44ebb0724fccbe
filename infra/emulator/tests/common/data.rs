//! Servers with a data directory: in this process, and in one that can be killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use cosmos_emulator::{CosmosServer, ServerOptions};
use serde_json::{Value, json};

use super::{Client, DOCS};

/// A directory path of one test; nothing is there yet, and it is removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("data-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        drop(std::fs::remove_dir_all(&path));
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn storage_file(&self) -> PathBuf {
        self.0.join("cosmos-2.redb")
    }

    /// The names and contents of all files, to see that nothing was changed.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let bytes = std::fs::read(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), bytes)
            })
            .collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the target directory does no harm.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Starts a server on a directory.
pub async fn start(scratch: &Scratch) -> (CosmosServer, Client) {
    let options = ServerOptions {
        data: Some(scratch.path().to_owned()),
        ..ServerOptions::default()
    };
    let server = CosmosServer::start(options).await.unwrap();
    let client = Client::new(server.listener());
    (server, client)
}

/// Creates the database `db` and the container `items`, partitioned by `/pk`.
pub async fn make(client: &Client, properties: Value) {
    let mut container = json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    for (name, value) in properties.as_object().unwrap() {
        container[name] = value.clone();
    }
    client.post("/dbs").json(json!({ "id": "db" })).ok().await.is(201);
    client.post("/dbs/db/colls").json(container).ok().await.is(201);
}

/// Every document of the container without system properties, sorted by key and id.
pub async fn all_documents(client: &Client) -> Vec<Value> {
    let mut found = Vec::new();
    let mut next = None;
    loop {
        let mut request = client.get(DOCS).header("x-ms-max-item-count", "1000");
        if let Some(next) = next {
            request = request.header("x-ms-continuation", next);
        }
        let page = request.ok().await.is(200);
        found.extend(page.documents().iter().cloned());
        next = page.header("x-ms-continuation").map(str::to_owned);
        if next.is_none() {
            break;
        }
    }
    for document in &mut found {
        let fields = document.as_object_mut().unwrap();
        fields.retain(|name, _| !name.starts_with('_'));
    }
    found.sort_by_key(|document| (document["pk"].to_string(), document["id"].to_string()));
    found
}

/// A server in a separate process, killed on drop.
pub struct Process {
    child: Child,
    pub client: Client,
}

impl Process {
    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Starts the `cosmos-emulator` binary with `--data`; `prelude` is shell code that runs before it, in the same process.
pub fn process(data: &Path, prelude: &str) -> Process {
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("{prelude}exec \"$0\" --port 0 --data \"$1\""))
        .arg(env!("CARGO_BIN_EXE_cosmos-emulator"))
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let endpoint = lines
        .find_map(|line| line.unwrap().strip_prefix("Cosmos DB listens at ").map(str::to_owned))
        .expect("it prints its endpoint");
    // Keep reading its output: a closed pipe would end it.
    std::thread::spawn(move || lines.for_each(drop));
    let client = Client::to(&endpoint, cosmos_emulator::DEFAULT_KEY);
    Process { child, client }
}
