//! Keys of an OpenID Connect issuer, and the tokens that they sign.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key with its id.
pub enum Signer {
    /// For RS256.
    Rsa(&'static str, Box<RsaKeyPair>),
    /// For ES256.
    P256(&'static str, Box<EcdsaKeyPair>),
}

impl Signer {
    /// A new key for RS256.
    pub fn rsa(kid: &'static str) -> Signer {
        Signer::Rsa(kid, Box::new(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")))
    }

    /// A new key for ES256.
    pub fn p256(kid: &'static str) -> Signer {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Signer::P256(kid, Box::new(key))
    }

    /// Its public part, for the list of keys.
    pub fn jwk(&self) -> Value {
        match self {
            Signer::Rsa(kid, key) => {
                // SEQUENCE { INTEGER 0 n, INTEGER 65537 } in DER: n has 256 bytes.
                let n = &key.public_key().as_ref()[9..265];
                json!({"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": Signer::encode(n), "e": "AQAB"})
            }
            Signer::P256(kid, key) => {
                let point = key.public_key().as_ref();
                let (x, y) = (Signer::encode(&point[1..33]), Signer::encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y})
            }
        }
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        let (alg, kid) = match self {
            Signer::Rsa(kid, _) => ("RS256", kid),
            Signer::P256(kid, _) => ("ES256", kid),
        };
        self.signed(&json!({"alg": alg, "kid": kid, "typ": "JWT"}), claims)
    }

    /// A token with this header and these claims.
    pub fn signed(&self, header: &Value, claims: &Value) -> String {
        let (header, claims) = (Signer::encode(header.to_string()), Signer::encode(claims.to_string()));
        let signed = format!("{header}.{claims}");
        let random = SystemRandom::new();
        let signature = match self {
            Signer::Rsa(_, key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature)
                    .expect("it signs");
                signature
            }
            Signer::P256(_, key) => {
                let signature: signature::Signature = key.sign(&random, signed.as_bytes()).expect("it signs");
                signature.as_ref().to_vec()
            }
        };
        format!("{signed}.{}", Signer::encode(signature))
    }

    /// The encoding of the parts of tokens and keys.
    pub fn encode(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }
}
