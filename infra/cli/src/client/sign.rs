//! Signs requests with AWS credentials (SigV4).

use super::answer::Failure;
use aws_config::BehaviorVersion;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// Credentials that end sooner are loaded again.
const SOON: Duration = Duration::from_secs(5 * 60);

/// Credentials, and what they sign for.
#[derive(Debug)]
pub(super) struct Signer {
    provider: SharedCredentialsProvider,
    credentials: Mutex<Credentials>,
    region: String,
    service: &'static str,
}

/// A request as it is signed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    pub(super) url: &'a str,
    pub(super) body: &'a [u8],
}

impl Signer {
    /// With the credentials that the AWS SDKs and the AWS CLI find: variables, profiles, web identity, a container's or an
    /// instance's role.
    pub(super) async fn load(
        region: Option<String>,
        service: &'static str,
        profile: Option<String>,
    ) -> Result<Signer, Failure> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        let config = loader.load().await;
        let region = region.or_else(|| config.region().map(ToString::to_string));
        let region = region.ok_or_else(|| {
            Failure::error("no AWS region is known to sign the request for: set AWS_REGION, or `region` in the profile")
        })?;
        let provider = config
            .credentials_provider()
            .ok_or_else(|| Failure::error("there are no AWS credentials to sign the request with"))?;
        let credentials = loaded(&provider).await?;
        Ok(Signer {
            provider,
            credentials: Mutex::new(credentials),
            region,
            service,
        })
    }

    /// The credentials, if they last; `dashboard` runs for longer than most.
    async fn credentials(&self, now: SystemTime) -> Result<Credentials, Failure> {
        let mut credentials = self.credentials.lock().await;
        if credentials.expiry().is_some_and(|end| end < now + SOON) {
            *credentials = loaded(&self.provider).await?;
        }
        Ok(credentials.clone())
    }

    /// The headers that sign a request.
    pub(super) async fn headers(
        &self,
        request: Unsigned<'_>,
        now: SystemTime,
    ) -> Result<Vec<(String, String)>, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::error(format!("the request cannot be signed: {error}"));
        let identity = self.credentials(now).await?.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| failed(&error))?
            .into();
        let body = SignableBody::Bytes(request.body);
        let signable = SignableRequest::new(request.method, request.url, std::iter::empty(), body);
        let signable = signable.map_err(|error| failed(&error))?;
        let signed = sign(signable, &parameters).map_err(|error| failed(&error))?;
        let (instructions, _) = signed.into_parts();
        let headers = instructions.headers();
        Ok(headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect())
    }
}

async fn loaded(provider: &SharedCredentialsProvider) -> Result<Credentials, Failure> {
    provider.provide_credentials().await.map_err(|error| {
        Failure::error(format!(
            "there are no AWS credentials to sign the request with ({error}): log in to AWS, or pass a token with --token or \
             DUROXIDE_LAMBDA_TOKEN"
        ))
    })
}
