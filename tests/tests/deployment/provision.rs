//! The binary `provision` against the emulator.

use ::cosmos::{ClientConfig, ContainerSpec, CosmosClient, IndexingPolicy, Key, StaticKey, Throughput};
use anyhow::Result;
use cosmos_emulator::{CosmosServer, ServerOptions};
use duroxide_cosmos::container_spec;
use std::process::Command;
use tests::real::build;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

struct Account {
    server: CosmosServer,
    binary: std::path::PathBuf,
}

/// What the process said, and its exit code.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Account {
    async fn open() -> Result<Account> {
        let [binary] = build(["provision"]).await?;
        let server = CosmosServer::start(ServerOptions::default()).await?;
        Ok(Account { server, binary })
    }

    fn client(&self) -> Result<CosmosClient> {
        let key = StaticKey::new(Key::from_base64(&self.server.listener().key())?);
        Ok(CosmosClient::new(ClientConfig::new(
            &self.server.listener().endpoint(),
            key,
        )?))
    }

    async fn store(&self, arguments: &[&str]) -> Result<Said> {
        self.store_with(arguments, &[("COSMOS_KEY", self.server.listener().key().as_str())])
            .await
    }

    async fn store_with(&self, arguments: &[&str], env: &[(&str, &str)]) -> Result<Said> {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("COSMOS_ENDPOINT", self.server.listener().endpoint())
            .envs(env.iter().copied());
        // The server is in this process: its runtime must go on meanwhile.
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        Ok(Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn the_first_run_creates_the_second_verifies_and_writes_nothing() -> Result<()> {
    let account = Account::open().await?;
    let missing = account.store(&["verify"]).await?;
    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert!(missing.out.contains("duroxide/workflows: missing"), "{missing:?}");

    let first = account.store(&["ensure"]).await?;
    assert_eq!(first.code, Some(0), "{first:?}");
    for said in ["database duroxide: created", "workflows: created", "as expected"] {
        assert!(first.out.contains(said), "{first:?}");
    }
    account.server.listener().reset();
    for command in ["ensure", "verify"] {
        let second = account.store(&[command]).await?;
        assert_eq!(second.code, Some(0), "{second:?}");
        assert_eq!(second.out.trim(), "container duroxide/workflows: as expected");
    }
    assert_eq!(account.server.listener().counts().writes(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn another_database_container_and_throughput_can_be_chosen() -> Result<()> {
    let account = Account::open().await?;
    let chosen = [
        "ensure",
        "--database",
        "db",
        "--container",
        "flows",
        "--throughput",
        "autoscale:4000",
    ];
    let said = account.store(&chosen).await?;
    assert_eq!(said.code, Some(0), "{said:?}");
    let found = account.client()?.read_container("db", "flows").await?;
    assert!(found.is_some_and(|found| found.default_ttl == Some(-1)));
    Ok(())
}

/// A container that was created differently.
async fn with(account: &Account, change: impl FnOnce(&mut ContainerSpec)) -> Result<()> {
    let client = account.client()?;
    client.ensure_database("duroxide", None).await?;
    let mut spec = container_spec("workflows", Throughput::Serverless);
    change(&mut spec);
    client.ensure_container("duroxide", &spec).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn a_container_that_differs_is_reported_in_full_and_left_as_it_is() -> Result<()> {
    let account = Account::open().await?;
    with(&account, |spec| {
        spec.default_ttl = None;
        spec.indexing = IndexingPolicy::default();
    })
    .await?;
    for command in ["ensure", "verify"] {
        let said = account.store(&[command]).await?;
        assert_eq!(said.code, Some(3), "{said:?}");
        for part in [
            "defaultTtl is not set, expected -1",
            "includedPaths is [/*], expected [/blocked/listed/?, /blocked/since/?, ",
            "excludedPaths is [], expected [/*]",
            "Nothing was changed",
        ] {
            assert!(said.out.contains(part), "{part}: {said:?}");
        }
    }
    let found = account
        .client()?
        .read_container("duroxide", "workflows")
        .await?
        .unwrap();
    assert_eq!(
        (found.default_ttl, found.indexing.included),
        (None, vec!["/*".to_owned()])
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn a_container_with_another_partition_key_cannot_be_used() -> Result<()> {
    let account = Account::open().await?;
    with(&account, |spec| spec.partition_key_path = "/instance".to_owned()).await?;
    let said = account.store(&["ensure"]).await?;
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        said.out.contains("partitionKey.paths is /instance, expected /pk"),
        "{said:?}"
    );
    assert!(said.out.contains("choose another container name"), "{said:?}");
    Ok(())
}

/// Answers every request with a container, and closes.
async fn answering(container: String) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") && stream.read_buf(&mut asked).await.is_ok_and(|read| read > 0) {}
            let length = container.len();
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{container}");
            // A client that is gone does not need its answer.
            stream.write_all(answer.as_bytes()).await.ok();
        }
    });
    Ok(endpoint)
}

/// An account like that of cosmos.bicep: the key may read, but not create.
async fn refusing_to_create() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = Vec::new();
            while !asked.windows(4).any(|end| end == b"\r\n\r\n")
                && stream.read_buf(&mut asked).await.is_ok_and(|read| read > 0)
            {}
            let status = match asked.starts_with(b"POST") {
                true => "403 Forbidden",
                false => "404 Not Found",
            };
            let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
            // A client that is gone does not need its answer.
            stream.write_all(answer.as_bytes()).await.ok();
        }
    });
    Ok(endpoint)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn an_account_that_forbids_its_key_to_create_is_named_with_what_to_do() -> Result<()> {
    let account = Account::open().await?;
    let endpoint = refusing_to_create().await?;
    let said = account.store(&["ensure", "--endpoint", &endpoint]).await?;
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in [
        "disableKeyBasedMetadataWriteAccess",
        "deploy files DIR",
        "containerName",
    ] {
        assert!(said.err.contains(part), "{said:?}");
    }
    Ok(())
}

/// An old client makes such a container. It takes partition keys of 101 bytes only, and that cannot be changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn a_container_with_a_version_1_partition_key_is_refused() -> Result<()> {
    let account = Account::open().await?;
    let mut container = serde_json::to_value(container_spec("workflows", Throughput::Serverless))?;
    container["partitionKey"]["version"] = 1.into();
    let endpoint = answering(container.to_string()).await?;
    let said = account.store(&["verify", "--endpoint", &endpoint]).await?;
    assert_eq!(said.code, Some(3), "{said:?}");
    for part in ["partitionKey.version is 1, expected 2", "choose another container name"] {
        assert!(said.out.contains(part), "{said:?}");
    }
    assert!(!said.out.contains("change the container"), "{said:?}");
    Ok(())
}

/// An account that refuses its key: a person verifies with a token, which cannot create.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn a_token_verifies_without_the_key_and_cannot_create() -> Result<()> {
    let account = Account::open().await?;
    let token = account.server.tokens().issue(std::time::Duration::from_secs(600));
    let with_token = [("COSMOS_TOKEN", token.as_str())];
    let missing = account.store_with(&["verify"], &with_token).await?;
    assert_eq!(missing.code, Some(3), "{missing:?}");
    let refused = account.store_with(&["ensure"], &with_token).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("a token of Entra ID cannot create") && refused.err.contains("deploy files DIR"),
        "{refused:?}"
    );
    account.store(&["ensure"]).await?;
    account.server.disable_key();
    for command in ["verify", "ensure"] {
        let said = account.store_with(&[command], &with_token).await?;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.out.trim(), "container duroxide/workflows: as expected");
    }
    let key = account.store(&["verify"]).await?;
    assert!(
        key.code == Some(1) && key.err.contains("key authentication is not disabled"),
        "{key:?}"
    );
    let expired = account.server.tokens().issue(std::time::Duration::ZERO);
    let said = account.store_with(&["verify"], &[("COSMOS_TOKEN", &expired)]).await?;
    assert!(
        said.code == Some(1) && said.err.contains("check that it has not expired"),
        "{said:?}"
    );
    let both = [("COSMOS_TOKEN", token.as_str()), ("COSMOS_KEY", "YW55")];
    let said = account.store_with(&["verify"], &both).await?;
    assert!(said.code == Some(1) && said.err.contains("keep one"), "{said:?}");
    assert!(!format!("{key:?} {refused:?} {said:?}").contains(&token));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "exhaustive: builds the binary `provision`"]
async fn an_unreachable_store_is_reported_in_one_line_without_the_key() -> Result<()> {
    let account = Account::open().await?;
    let wrong = "d3JvbmcgYnV0IGJhc2U2NA==";
    let none = account.store_with(&["verify"], &[]).await?;
    assert!(
        none.code == Some(1) && none.err.contains("COSMOS_KEY is not set and COSMOS_TOKEN is not set"),
        "{none:?}"
    );
    let refused = account.store_with(&["ensure"], &[("COSMOS_KEY", wrong)]).await?;
    assert!(
        refused.code == Some(1) && refused.err.starts_with("error: "),
        "{refused:?}"
    );
    assert!(!refused.err.contains(wrong) && refused.out.is_empty(), "{refused:?}");
    let endpoint = account.store(&["verify", "--endpoint", "http://example.com"]).await?;
    assert!(
        endpoint.code == Some(1) && endpoint.err.contains("COSMOS_ENDPOINT"),
        "{endpoint:?}"
    );
    let throughput = account.store(&["ensure", "--throughput", "much"]).await?;
    assert!(
        throughput.code == Some(2) && throughput.err.contains("autoscale:N"),
        "{throughput:?}"
    );
    Ok(())
}
