//! The tables of the storage file, and how changes are written to them and read back.
//!
//! | table | key | value |
//! |---|---|---|
//! | `databases` | id | definition |
//! | `containers` | database, id | number of partitions, definition |
//! | `documents` | database, container, partition key, id | time of the write, document |
//!
//! Definitions and documents are JSON as the client sent it. The time is in milliseconds since 1970: a document's time to live
//! counts from it.

use std::fs::OpenOptions;
use std::panic::catch_unwind;
use std::path::Path;

use bytes::Bytes;
use redb::backends::InMemoryBackend;
use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, Table, TableDefinition, WriteTransaction,
};

use super::change::Change;
use super::directory::{Directory, StorageError};
use super::file::UnsyncedFile;

const DATABASES: TableDefinition<&str, &str> = TableDefinition::new("databases");
const CONTAINERS: TableDefinition<(&str, &str), (u32, &str)> = TableDefinition::new("containers");
const DOCUMENTS: TableDefinition<(&str, &str, &str, &str), (u64, &str)> = TableDefinition::new("documents");

/// The server reads the file at start only, so redb needs no large cache.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// A file is compacted at start if it is larger than three times its contents and this.
const SPARE_BYTES: u64 = 4 * 1024 * 1024;

/// Everything in a storage file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Contents {
    /// Id and definition.
    pub(crate) databases: Vec<(String, Bytes)>,
    pub(crate) containers: Vec<StoredContainer>,
    pub(crate) documents: Vec<StoredDocument>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct StoredContainer {
    pub(crate) db: String,
    pub(crate) id: String,
    pub(crate) partitions: u32,
    pub(crate) definition: Bytes,
}

#[derive(Debug, PartialEq)]
pub(crate) struct StoredDocument {
    pub(crate) db: String,
    pub(crate) container: String,
    pub(crate) key: String,
    pub(crate) id: String,
    /// The time of the write, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) body: Bytes,
}

/// Opens the storage file of a directory, creates it if necessary, and returns what it holds.
pub(super) fn open(directory: &Directory) -> Result<(Database, Contents), StorageError> {
    let path = directory.file();
    if !path.exists() {
        create(directory)?;
    }
    let contents = read_file(&path)?;
    let mut database = open_file(&path)?;
    let length = std::fs::metadata(&path).map_err(StorageError::io("read", &path))?.len();
    if length > SPARE_BYTES + 3 * contents.bytes() {
        database.compact().map_err(|error| failed(&path, error))?;
    }
    Ok((database, contents))
}

/// Writes the changes of one request, all or none.
pub(super) fn write(database: &Database, at: u64, changes: &[Change]) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut documents = transaction.open_table(DOCUMENTS)?;
        for change in changes {
            match change {
                Change::Put {
                    db,
                    container,
                    key,
                    id,
                    document,
                } => {
                    let place = (db.as_str(), container.as_str(), key.as_str(), id.as_str());
                    documents.insert(place, (at, document.get()))?;
                }
                Change::Delete { db, container, key, id } => {
                    documents.remove((db.as_str(), container.as_str(), key.as_str(), id.as_str()))?;
                }
                other => define(&transaction, &mut documents, other)?,
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Writes a change of a database or container.
fn define(
    transaction: &WriteTransaction,
    documents: &mut Table<(&str, &str, &str, &str), (u64, &str)>,
    change: &Change,
) -> Result<(), redb::Error> {
    let mut databases = transaction.open_table(DATABASES)?;
    let mut containers = transaction.open_table(CONTAINERS)?;
    match change {
        Change::Database { id, definition } => {
            databases.insert(id.as_str(), definition.get())?;
        }
        Change::DropDatabase { id } => {
            databases.remove(id.as_str())?;
            containers.retain(|(db, _), _| db != id)?;
            documents.retain(|(db, ..), _| db != id)?;
        }
        Change::Container {
            db,
            id,
            definition,
            partitions,
        } => {
            let place = (db.as_str(), id.as_str());
            let partitions = containers.get(place)?.map_or(*partitions, |old| old.value().0);
            containers.insert(place, (partitions, definition.get()))?;
        }
        Change::DropContainer { db, id } => {
            containers.remove((db.as_str(), id.as_str()))?;
            documents.retain(|(of, container, ..), _| of != db || container != id)?;
        }
        // Written by the caller.
        Change::Put { .. } | Change::Delete { .. } => {}
    }
    Ok(())
}

/// Creates an empty storage file under another name first, so that a crash leaves a usable file or none.
fn create(directory: &Directory) -> Result<(), StorageError> {
    let (path, new) = (directory.file(), directory.new_file());
    std::fs::File::create(&new).map_err(StorageError::io("write", &new))?;
    let database = open_file(&new)?;
    create_tables(&database).map_err(|error| failed(&new, error))?;
    drop(database);
    std::fs::rename(&new, &path)
        .and_then(|()| directory.sync())
        .map_err(StorageError::io("write", &path))
}

/// Reading a table that was never written to is an error.
pub(super) fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(DATABASES)?;
    transaction.open_table(CONTAINERS)?;
    transaction.open_table(DOCUMENTS)?;
    transaction.commit()?;
    Ok(())
}

fn open_file(path: &Path) -> Result<Database, StorageError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(StorageError::io("write", path))?;
    open_backend(UnsyncedFile(file)).map_err(|error| failed(path, error))
}

pub(super) fn open_backend(backend: impl StorageBackend) -> Result<Database, redb::DatabaseError> {
    Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend)
}

/// Reads a storage file from a copy in memory, whose checksums are verified first: opening the file itself would change it.
fn read_file(path: &Path) -> Result<Contents, StorageError> {
    let bytes = std::fs::read(path).map_err(StorageError::io("read", path))?;
    read_bytes(&bytes).map_err(|what| StorageError::Damaged {
        path: path.to_owned(),
        what,
    })
}

/// The error says what is damaged.
pub(super) fn read_bytes(bytes: &[u8]) -> Result<Contents, String> {
    if bytes.is_empty() {
        // redb would take it for a new one.
        return Err("the file is empty".to_owned());
    }
    // redb panics on some kinds of damage. Only the copy is lost then.
    match catch_unwind(|| read_copy(bytes)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err("the storage engine cannot read it".to_owned()),
    }
}

fn read_copy(bytes: &[u8]) -> Result<Contents, redb::Error> {
    let copy = InMemoryBackend::new();
    copy.set_len(bytes.len() as u64)?;
    copy.write(0, bytes)?;
    let mut database = open_backend(copy)?;
    if !database.check_integrity()? {
        return Err(redb::Error::Corrupted("a checksum is wrong".to_owned()));
    }
    read(&database)
}

fn read(database: &Database) -> Result<Contents, redb::Error> {
    let transaction = database.begin_read()?;
    let mut contents = Contents::default();
    for row in transaction.open_table(DATABASES)?.iter()? {
        let (id, definition) = row?;
        contents
            .databases
            .push((id.value().to_owned(), bytes(definition.value())));
    }
    for row in transaction.open_table(CONTAINERS)?.iter()? {
        let (place, container) = row?;
        let ((db, id), (partitions, definition)) = (place.value(), container.value());
        contents.containers.push(StoredContainer {
            db: db.to_owned(),
            id: id.to_owned(),
            partitions,
            definition: bytes(definition),
        });
    }
    for row in transaction.open_table(DOCUMENTS)?.iter()? {
        let (place, document) = row?;
        let ((db, container, key, id), (at, body)) = (place.value(), document.value());
        contents.documents.push(StoredDocument {
            db: db.to_owned(),
            container: container.to_owned(),
            key: key.to_owned(),
            id: id.to_owned(),
            at,
            body: bytes(body),
        });
    }
    Ok(contents)
}

impl Contents {
    /// About how much room the contents need in the file.
    fn bytes(&self) -> u64 {
        self.documents
            .iter()
            .map(|document| document.body.len() as u64 + 200)
            .sum()
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// An error of redb on a file whose copy was readable: the disk is full, or cannot be written.
fn failed(path: &Path, error: impl Into<redb::Error>) -> StorageError {
    match error.into() {
        redb::Error::Io(source) => StorageError::io("write", path)(source),
        other => StorageError::Damaged {
            path: path.to_owned(),
            what: other.to_string(),
        },
    }
}
