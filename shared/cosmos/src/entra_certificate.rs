//! A certificate as proof: the application signs its own assertions.
//!
//! Entra ID has the certificate; the private key signs a JSON web token (PS256) that names the certificate by its
//! thumbprint. The signature is made by aws-lc-rs, which TLS links anyway. The certificate is not parsed: its thumbprint is all
//! that Entra ID needs.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PSS_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::entra_error::TokenError;

/// An assertion is used at once.
const LIFETIME_SECONDS: u64 = 300;
/// This machine's clock may be ahead.
const SKEW_SECONDS: u64 = 60;

/// A certificate with its private key. `Debug` shows neither.
#[derive(Clone)]
pub struct Certificate {
    key: Arc<KeyPair>,
    thumbprint: String,
}

impl Certificate {
    /// Reads a PEM text with a certificate and its RSA private key (PKCS#8 or PKCS#1, not encrypted). The error does not
    /// repeat the text.
    pub fn from_pem(text: &str) -> Result<Certificate, TokenError> {
        let refuse = |reason: &str| TokenError::Settings {
            reason: reason.to_owned(),
        };
        let certificate =
            block(text, "CERTIFICATE").ok_or_else(|| refuse("the PEM text has no block CERTIFICATE in base64"))?;
        let key = if let Some(pkcs8) = block(text, "PRIVATE KEY") {
            KeyPair::from_pkcs8(&pkcs8)
        } else if let Some(pkcs1) = block(text, "RSA PRIVATE KEY") {
            KeyPair::from_der(&pkcs1)
        } else {
            return Err(refuse(
                "the PEM text has no block PRIVATE KEY in base64 (an encrypted key cannot be used)",
            ));
        };
        let key = key.map_err(|_| refuse("the private key is not an RSA key of at least 2048 bits"))?;
        Ok(Certificate {
            key: Arc::new(key),
            thumbprint: URL_SAFE_NO_PAD.encode(Sha256::digest(certificate)),
        })
    }

    /// An assertion for the token endpoint `audience`.
    pub(crate) fn assertion(&self, audience: &str, client: &str, now_ms: u64) -> Result<String, TokenError> {
        let now = now_ms / 1_000;
        let head = json!({"alg": "PS256", "typ": "JWT", "x5t#S256": self.thumbprint});
        let claims = json!({
            "aud": audience,
            "iss": client,
            "sub": client,
            "jti": format!("{:032x}", fastrand::u128(..)),
            "iat": now,
            "nbf": now - SKEW_SECONDS.min(now),
            "exp": now + LIFETIME_SECONDS,
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(head), part(claims));
        let mut signature = vec![0; self.key.public_modulus_len()];
        self.key
            .sign(&RSA_PSS_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| TokenError::proof("the private key of the certificate does not sign", false))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Certificate) -> bool {
        self.thumbprint == other.thumbprint
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(…redacted)")
    }
}

/// The content of the first PEM block with this label.
fn block(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let base64: String = body.split_whitespace().collect();
    STANDARD.decode(base64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::encoding::AsDer as _;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{KeyPair as _, RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};

    fn pem(label: &str, bytes: &[u8]) -> String {
        let base64 = STANDARD.encode(bytes);
        let lines: Vec<&str> = base64
            .as_bytes()
            .chunks(64)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    #[test]
    fn an_assertion_names_the_certificate_and_is_signed_with_its_key() {
        let key = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let text = pem("PRIVATE KEY", key.as_der().unwrap().as_ref()) + &pem("CERTIFICATE", b"a certificate");
        let certificate = Certificate::from_pem(&text).unwrap();
        let assertion = certificate
            .assertion("https://a/t/oauth2/v2.0/token", "me", 1_700_000_000_123)
            .unwrap();
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key.public_key().as_ref())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
        let (head, claims) = signed.split_once('.').unwrap();
        let json = |part: &str| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        // SHA-256 of "a certificate", computed with Python's `hashlib`.
        let thumbprint = "gazXYhQPppKhQoItL75NxvVLyqUB9oqzflru0Lr-TZk";
        assert_eq!(
            json(head),
            json!({"alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint})
        );
        let claims = json(claims);
        assert_eq!(
            (&claims["aud"], &claims["iss"], &claims["sub"]),
            (&json!("https://a/t/oauth2/v2.0/token"), &json!("me"), &json!("me"))
        );
        assert_eq!(
            (&claims["nbf"], &claims["exp"]),
            (&json!(1_699_999_940), &json!(1_700_000_300))
        );
        assert!(format!("{certificate:?}") == "Certificate(…redacted)");
    }

    #[test]
    fn a_text_without_both_parts_is_refused_without_repeating_it() {
        let certificate = pem("CERTIFICATE", b"hush");
        for (text, why) in [
            (String::new(), "no block CERTIFICATE"),
            (certificate.clone(), "no block PRIVATE KEY"),
            (
                certificate.clone() + &pem("ENCRYPTED PRIVATE KEY", b"hush"),
                "no block PRIVATE KEY",
            ),
            (certificate.clone() + &pem("PRIVATE KEY", b"hush"), "not an RSA key"),
            (certificate + &pem("RSA PRIVATE KEY", b"hush"), "not an RSA key"),
        ] {
            let error = Certificate::from_pem(&text).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(why) && !shown.contains("aHVzaA"), "{why}: {shown}");
        }
    }
}
