//! What a journal comes to: the live documents, and nothing of how they came about.

use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::change::{Change, Record};

/// All databases.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) databases: BTreeMap<String, Database>,
}

#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) definition: Box<RawValue>,
    pub(crate) containers: BTreeMap<String, Container>,
}

#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) definition: Box<RawValue>,
    pub(crate) partitions: u32,
    /// By partition key and id.
    pub(crate) documents: HashMap<(String, String), Document>,
}

#[derive(Debug)]
pub(crate) struct Document {
    /// When it was written, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) body: Box<RawValue>,
}

impl State {
    /// Takes in the next record. The error says what it is about that was never made.
    pub(super) fn apply(&mut self, record: Record) -> Result<(), String> {
        let at = record.at;
        for change in record.changes {
            match change {
                Change::Database { id, definition } => {
                    self.databases.entry(id).or_insert(Database {
                        definition,
                        containers: BTreeMap::new(),
                    });
                }
                Change::DropDatabase { id } => {
                    self.databases.remove(&id);
                }
                Change::Container {
                    db,
                    id,
                    definition,
                    partitions,
                } => self.define(&db, id, definition, partitions)?,
                Change::DropContainer { db, id } => {
                    if let Some(database) = self.databases.get_mut(&db) {
                        database.containers.remove(&id);
                    }
                }
                Change::Put {
                    db,
                    container,
                    key,
                    id,
                    document,
                } => {
                    let documents = self.documents_of(&db, &container)?;
                    documents.insert((key, id), Document { at, body: document });
                }
                Change::Delete { db, container, key, id } => {
                    self.documents_of(&db, &container)?.remove(&(key, id));
                }
            }
        }
        Ok(())
    }

    fn define(&mut self, db: &str, id: String, definition: Box<RawValue>, partitions: u32) -> Result<(), String> {
        let database = self
            .databases
            .get_mut(db)
            .ok_or_else(|| format!("the database '{db}'"))?;
        match database.containers.get_mut(&id) {
            Some(container) => container.definition = definition,
            None => {
                let container = Container {
                    definition,
                    partitions,
                    documents: HashMap::new(),
                };
                database.containers.insert(id, container);
            }
        }
        Ok(())
    }

    fn documents_of(&mut self, db: &str, name: &str) -> Result<&mut HashMap<(String, String), Document>, String> {
        let container = self
            .databases
            .get_mut(db)
            .and_then(|database| database.containers.get_mut(name));
        container
            .map(|container| &mut container.documents)
            .ok_or_else(|| format!("the container '{name}' of the database '{db}'"))
    }

    /// The same state as records: one for the definitions of each container, one for each document.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        self.databases.iter().flat_map(|(db, database)| {
            let made = Change::Database {
                id: db.clone(),
                definition: database.definition.clone(),
            };
            let containers = database.containers.iter().flat_map(move |(name, container)| {
                let defined = Change::Container {
                    db: db.clone(),
                    id: name.clone(),
                    definition: container.definition.clone(),
                    partitions: container.partitions,
                };
                let put = move |((key, id), document): (&(String, String), &Document)| {
                    let put = Change::Put {
                        db: db.clone(),
                        container: name.clone(),
                        key: key.clone(),
                        id: id.clone(),
                        document: document.body.clone(),
                    };
                    (document.at, put)
                };
                std::iter::once((0, defined)).chain(container.documents.iter().map(put))
            });
            std::iter::once((0, made)).chain(containers).map(|(at, change)| Record {
                at,
                changes: vec![change],
            })
        })
    }

    pub(crate) fn containers(&self) -> usize {
        self.databases.values().map(|database| database.containers.len()).sum()
    }

    pub(crate) fn documents(&self) -> usize {
        self.all().count()
    }

    /// About how much the live documents weigh.
    pub(super) fn bytes(&self) -> u64 {
        self.all().map(|document| document.body.get().len() as u64 + 200).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Document> {
        let containers = self
            .databases
            .values()
            .flat_map(|database| database.containers.values());
        containers.flat_map(|container| container.documents.values())
    }
}
