//! A secret in moto's Secrets Manager.

use anyhow::{Context, Result};
use aws_sdk_secretsmanager::Client;

use super::moto::Moto;

/// A secret with one current value.
#[derive(Debug)]
pub struct Secret {
    client: Client,
    arn: String,
}

impl Secret {
    /// Creates a secret.
    pub async fn create(moto: &Moto, name: &str, value: &str) -> Result<Secret> {
        let client = moto.secrets();
        let created = client.create_secret().name(name).secret_string(value).send().await?;
        let arn = created.arn().context("a created secret has an ARN")?.to_owned();
        Ok(Secret { client, arn })
    }

    /// Its ARN.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// Replaces the value, as a rotation does.
    pub async fn put(&self, value: &str) -> Result<()> {
        let request = self.client.put_secret_value().secret_id(&self.arn);
        request.secret_string(value).send().await?;
        Ok(())
    }
}
