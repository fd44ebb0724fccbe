//! A bearer token: parsed, verified with one key of the issuer, and its claims checked. Pure.
//!
//! The algorithm is the key's, not the token's choice: RS256 for RSA keys, ES256 for keys on P-256. A token that names another
//! (`none`, HS256) is refused before any key is read.

use super::Caller;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use duroxide_lambda::config::{ApiRole, JwtSettings};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest token.
const MOST: usize = 16 * 1024;
/// How far the clocks of issuer and API may differ.
const LEEWAY_S: u64 = 60;

/// Why a token is refused, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejected {
    #[error("there is no bearer token")]
    NoToken,
    #[error("it is not a signed token")]
    Malformed,
    #[error("its algorithm is not accepted")]
    Algorithm,
    #[error("its key is not known")]
    UnknownKey,
    #[error("the keys of the issuer cannot be read")]
    NoKeys,
    #[error("its signature is wrong")]
    Signature,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
    #[error("it has expired")]
    Expired,
    #[error("it is not valid yet")]
    NotYet,
}

/// The two algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Es256,
}

impl Algorithm {
    fn of(name: &str) -> Option<Algorithm> {
        match name {
            "RS256" => Some(Algorithm::Rs256),
            "ES256" => Some(Algorithm::Es256),
            _ => None,
        }
    }
}

/// A key of the issuer.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub kid: String,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Key {
    /// The keys of a set that can be used; the others are of no concern here.
    pub(crate) fn of_set(set: &[u8]) -> Option<Vec<Key>> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(set).ok()?;
        let keys = set
            .keys
            .into_iter()
            .filter_map(|key| Key::of(serde_json::from_value(key).ok()?));
        Some(keys.collect())
    }

    fn of(jwk: Jwk) -> Option<Key> {
        if jwk.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let bytes = |text: Option<String>| decode(&text?);
        let (material, algorithm) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => (
                Material::Rsa {
                    n: bytes(jwk.n)?,
                    e: bytes(jwk.e)?,
                },
                "RS256",
            ),
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes(jwk.x)?, bytes(jwk.y)?);
                let is_point = x.len() == 32 && y.len() == 32;
                is_point.then_some(())?;
                (Material::P256([&[4], x.as_slice(), &y].concat()), "ES256")
            }
            _ => return None,
        };
        if jwk.alg.is_some_and(|named| named != algorithm) {
            return None;
        }
        let kid = jwk.kid?;
        Some(Key { kid, material })
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { n, e } => {
                let key = PublicKeyComponents { n, e };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
            }
            Material::P256(point) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
                key.verify(signed, signature).is_ok()
            }
        }
    }
}

/// A token that was not verified yet.
#[derive(Debug)]
pub(crate) struct Token<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    pub kid: String,
    pub claims: Map<String, Value>,
}

impl<'a> Token<'a> {
    pub(crate) fn parse(token: &'a str) -> Result<Token<'a>, Rejected> {
        if token.len() > MOST {
            return Err(Rejected::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Rejected::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(Rejected::Malformed)?;
        let object = |text: &str| -> Result<Map<String, Value>, Rejected> {
            let bytes = decode(text).ok_or(Rejected::Malformed)?;
            serde_json::from_slice(&bytes).map_err(|_| Rejected::Malformed)
        };
        let header = object(header)?;
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let algorithm = text("alg").and_then(Algorithm::of).ok_or(Rejected::Algorithm)?;
        // Extensions that must be understood, and none is.
        if header.contains_key("crit") {
            return Err(Rejected::Malformed);
        }
        Ok(Token {
            signed,
            signature: decode(signature).ok_or(Rejected::Malformed)?,
            algorithm,
            kid: text("kid").ok_or(Rejected::UnknownKey)?.to_owned(),
            claims: object(claims)?,
        })
    }

    pub(crate) fn verify(&self, key: &Key) -> Result<(), Rejected> {
        if key.algorithm() != self.algorithm {
            return Err(Rejected::Algorithm);
        }
        let is_right = key.verifies(self.signed.as_bytes(), &self.signature);
        is_right.then_some(()).ok_or(Rejected::Signature)
    }
}

/// What the claims of a token must be.
#[derive(Debug)]
pub(crate) struct Rules {
    settings: JwtSettings,
}

impl Rules {
    pub(crate) fn of(settings: &JwtSettings) -> Rules {
        let settings = settings.clone();
        Rules { settings }
    }

    /// The caller of a verified token.
    pub(crate) fn check(&self, claims: &Map<String, Value>, now_s: u64) -> Result<Caller, Rejected> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("iss") != Some(self.settings.issuer.as_str()) {
            return Err(Rejected::Issuer);
        }
        let audience = claims.get("aud").map(texts).unwrap_or_default();
        if !audience.contains(&self.settings.audience.as_str()) {
            return Err(Rejected::Audience);
        }
        // Some issuers write fractions.
        let time = |name: &str| claims.get(name).map(|value| value.as_f64().unwrap_or(f64::NAN));
        let (now, leeway) = (now_s as f64, LEEWAY_S as f64);
        if !time("exp").is_some_and(|end| now < end + leeway) {
            return Err(Rejected::Expired);
        }
        if !time("nbf").is_none_or(|begin| begin <= now + leeway) {
            return Err(Rejected::NotYet);
        }
        let roles = claims.get(&self.settings.role_claim).map(texts).unwrap_or_default();
        let role = roles.iter().filter_map(|name| self.role_of(name)).max();
        Ok(Caller::new(text("sub").unwrap_or("unknown"), role))
    }

    fn role_of(&self, name: &str) -> Option<ApiRole> {
        self.settings.roles.get(name).copied().or_else(|| name.parse().ok())
    }
}

/// A text, or a list of texts.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    const NOW: u64 = 1_800_000_000;

    fn rules() -> Rules {
        Rules::of(&JwtSettings {
            issuer: "https://issuer".to_owned(),
            audience: "api".to_owned(),
            jwks_url: None,
            client_id: None,
            scope: "openid".to_owned(),
            role_claim: "roles".to_owned(),
            roles: BTreeMap::from([("admins".to_owned(), ApiRole::Operator)]),
        })
    }

    fn check(changes: Value) -> Result<Caller, Rejected> {
        let mut claims =
            json!({"iss": "https://issuer", "aud": "api", "exp": NOW + 600, "sub": "ada", "roles": ["reader"]});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        rules().check(claims.as_object().unwrap(), NOW)
    }

    #[test]
    fn the_claims_of_a_token_are_checked() {
        for (changes, rejected) in [
            (json!({"iss": "https://issuer/"}), Rejected::Issuer),
            (json!({"iss": null}), Rejected::Issuer),
            (json!({"aud": "other"}), Rejected::Audience),
            (json!({"aud": []}), Rejected::Audience),
            (json!({"aud": {"api": true}}), Rejected::Audience),
            (json!({"exp": NOW - 61}), Rejected::Expired),
            (json!({"exp": null}), Rejected::Expired),
            (json!({"exp": "2100"}), Rejected::Expired),
            (json!({"nbf": NOW + 61}), Rejected::NotYet),
            (json!({"nbf": "1970"}), Rejected::NotYet),
        ] {
            assert_eq!(check(changes.clone()), Err(rejected), "{changes}");
        }
        for changes in [
            json!({}),
            json!({"aud": ["other", "api"]}),
            json!({"exp": NOW - 59}),
            json!({"nbf": NOW as f64 + 59.5}),
        ] {
            assert_eq!(check(changes).unwrap().who, "ada");
        }
    }

    #[test]
    fn the_greatest_role_of_the_claim_counts() {
        for (roles, role) in [
            (json!(["reader", "client"]), Some(ApiRole::Client)),
            (json!("operator"), Some(ApiRole::Operator)),
            (json!(["admins", "reader"]), Some(ApiRole::Operator)),
            (json!(["Operator", "readers", 7]), None),
            (json!(null), None),
        ] {
            assert_eq!(check(json!({ "roles": roles })).unwrap().role, role, "{roles}");
        }
    }

    fn header(header: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!(
            "{}.{}.{}",
            part(header),
            part(&json!({})),
            URL_SAFE_NO_PAD.encode("signature")
        )
    }

    #[test]
    fn a_token_that_names_another_algorithm_is_refused_before_its_key_is_looked_up() {
        for alg in ["none", "None", "HS256", "RS512", "ES384", "PS256", ""] {
            let token = header(&json!({"alg": alg, "kid": "1"}));
            assert_eq!(Token::parse(&token).unwrap_err(), Rejected::Algorithm, "{alg}");
        }
        let without = header(&json!({"kid": "1"}));
        assert_eq!(Token::parse(&without).unwrap_err(), Rejected::Algorithm);
        let critical = header(&json!({"alg": "RS256", "kid": "1", "crit": ["exp"]}));
        assert_eq!(Token::parse(&critical).unwrap_err(), Rejected::Malformed);
        for malformed in ["", "a.b", "a.b.c", "..", &"a.".repeat(MOST)] {
            assert_eq!(Token::parse(malformed).unwrap_err(), Rejected::Malformed, "{malformed}");
        }
        assert!(Token::parse(&header(&json!({"alg": "RS256", "kid": "1"}))).is_ok());
    }

    #[test]
    fn a_key_for_another_purpose_is_not_used() {
        let (n, x) = (URL_SAFE_NO_PAD.encode([7; 256]), URL_SAFE_NO_PAD.encode([1; 32]));
        let keys = json!({"keys": [
            {"kty": "RSA", "kid": "right", "n": n, "e": "AQAB"},
            {"kty": "EC", "crv": "P-256", "kid": "curve", "x": x, "y": x},
            {"kty": "RSA", "n": n, "e": "AQAB"},
            {"kty": "RSA", "kid": "enc", "use": "enc", "n": n, "e": "AQAB"},
            {"kty": "RSA", "kid": "512", "alg": "RS512", "n": n, "e": "AQAB"},
            {"kty": "oct", "kid": "shared", "k": n},
            {"kty": "EC", "crv": "P-256", "kid": "short", "x": "AQAB", "y": x},
            {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": x},
            7
        ]});
        let kids: Vec<String> = Key::of_set(keys.to_string().as_bytes())
            .unwrap()
            .into_iter()
            .map(|key| key.kid)
            .collect();
        assert_eq!(kids, ["right", "curve"]);
        assert!(Key::of_set(b"<html>").is_none());
    }
}
