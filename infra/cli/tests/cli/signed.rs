//! Profiles and signatures, verified independently of the library that signs.

use crate::fixture::binary;
use crate::server::FakeApi;
use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use hyper::Request;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

pub const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Each byte of a segment that is not unreserved, encoded: what is encoded already is encoded twice.
fn encoded(path: &str) -> String {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: u8| match unreserved(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    path.bytes().map(encode).collect()
}

/// The signature that AWS would compute for a request.
pub fn signature(request: &Request<Bytes>, region: &str, signed: &str) -> String {
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    let time = header("x-amz-date");
    let scope = format!("{}/{region}/lambda/aws4_request", &time[..8]);
    let headers: String = signed
        .split(';')
        .map(|name| format!("{name}:{}\n", header(name).trim()))
        .collect();
    let mut query: Vec<&str> = request.uri().query().unwrap_or_default().split('&').collect();
    query.sort_unstable();
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{signed}\n{}",
        request.method(),
        encoded(request.uri().path()),
        query.join("&"),
        hex(&Sha256::digest(request.body())),
    );
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let key = [&time[..8], region, "lambda", "aws4_request"]
        .iter()
        .fold(format!("AWS4{SECRET}").into_bytes(), |key, part| hmac(&key, part));
    hex(&hmac(&key, &text))
}

/// The credential, the signed headers and the signature of a request.
pub fn authorization(request: &Request<Bytes>) -> (&str, &str, &str) {
    let value = request.headers()["authorization"].to_str().unwrap();
    let (credential, rest) = value.split_once(", SignedHeaders=").unwrap();
    let (signed, signature) = rest.split_once(", Signature=").unwrap();
    (credential, signed, signature)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_names_the_deployment_and_its_requests_are_signed() {
    let fake = FakeApi::start().await;
    let path = std::env::temp_dir().join(format!("profiles-{}.toml", std::process::id()));
    let profiles = format!(
        "[there]\nurl = \"{}\"\nauth = \"iam\"\nregion = \"eu-central-1\"\n",
        fake.url
    );
    std::fs::write(&path, profiles).unwrap();
    let variables: BTreeMap<String, String> = [
        ("DUROXIDE_LAMBDA_CONFIG", path.to_str().unwrap()),
        ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "session"),
        ("DUROXIDE_LAMBDA_TOKEN", "unused"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    fake.answer(&[(202, r#"{"instance": "a/b", "repeated": false}"#)]);
    let send = ["enqueue", "a/b ø", "go", "{}", "--profile", "there"];
    binary(&variables, &send, "").await.exits(0);
    let requests = fake.take();
    let request = &requests[0];
    assert_eq!(request.uri().path(), "/v1/instances/a%2Fb%20%C3%B8/queues/go");
    let (credential, signed, is) = authorization(request);
    let begin = "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/";
    assert!(
        credential.starts_with(begin) && credential.ends_with("/eu-central-1/lambda/aws4_request"),
        "{credential}"
    );
    for name in ["host", "x-amz-date", "x-amz-security-token"] {
        assert!(signed.split(';').any(|header| header == name), "{name}: {signed}");
    }
    assert_eq!(request.headers()["x-amz-security-token"], "session");
    assert_eq!(is, signature(request, "eu-central-1", signed));
    // Queries are signed, too.
    fake.answer(&[(200, r#"{"instances": []}"#)]);
    binary(&variables, &["list", "--prefix", "a b", "--profile", "there"], "")
        .await
        .exits(0);
    let requests = fake.take();
    assert_eq!(requests.len(), 1);
    let (_, signed, is) = authorization(&requests[0]);
    assert_eq!(is, signature(&requests[0], "eu-central-1", signed));
    binary(&variables, &["list", "--profile", "nowhere"], "")
        .await
        .exits(2)
        .warns("it has: there");
    std::fs::remove_file(&path).unwrap();
    binary(&variables, &["list", "--profile", "there"], "")
        .await
        .exits(2)
        .warns("cannot be read");
}
