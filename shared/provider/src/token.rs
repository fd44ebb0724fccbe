//! Lock tokens: they carry their own address, so that ack, renew and abandon never search for what they name.

use crate::error::Failure;
use cosmos::PartitionKey;
use serde::{Deserialize, Serialize};

/// What duroxide holds as an opaque string.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// Unique to one claim.
    #[serde(rename = "t")]
    pub nonce: String,
    #[serde(rename = "i")]
    pub instance: String,
    /// The work item's document id; a turn has none.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub work: Option<String>,
}

impl Token {
    pub(crate) fn turn(nonce: &str, instance: &str) -> Self {
        Token {
            nonce: nonce.to_owned(),
            instance: instance.to_owned(),
            work: None,
        }
    }

    pub(crate) fn work(nonce: &str, instance: &str, work: &str) -> Self {
        Token {
            nonce: nonce.to_owned(),
            instance: instance.to_owned(),
            work: Some(work.to_owned()),
        }
    }

    pub(crate) fn encode(&self) -> Result<String, Failure> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads the token of a turn.
    pub(crate) fn decode_turn(text: &str) -> Result<(Token, PartitionKey), Failure> {
        let token: Token = serde_json::from_str(text).map_err(|_| Failure::InvalidToken)?;
        if token.work.is_some() {
            return Err(Failure::InvalidToken);
        }
        let pk = PartitionKey::new(&token.instance)?;
        Ok((token, pk))
    }

    /// Reads the token of a work item, with its document id.
    pub(crate) fn decode_work(text: &str) -> Result<(Token, PartitionKey, String), Failure> {
        let token: Token = serde_json::from_str(text).map_err(|_| Failure::InvalidToken)?;
        let work = token.work.clone().ok_or(Failure::InvalidToken)?;
        let pk = PartitionKey::new(&token.instance)?;
        Ok((token, pk, work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_instance_ids_survive_in_a_token() {
        for instance in [
            "a/b",
            "back\\slash",
            "\"q\"",
            "日本 \u{1F600}",
            "with:colons|and{braces}",
        ] {
            let text = Token::turn("n", instance).encode().unwrap();
            assert_eq!(Token::decode_turn(&text).unwrap().0.instance, instance);
        }
    }

    #[test]
    fn a_token_of_the_other_kind_or_garbage_is_invalid() {
        let turn = Token::turn("n", "i").encode().unwrap();
        let work = Token::work("n", "i", "w:1:2").encode().unwrap();
        assert!(matches!(Token::decode_work(&turn), Err(Failure::InvalidToken)));
        assert!(matches!(Token::decode_turn(&work), Err(Failure::InvalidToken)));
        assert!(matches!(
            Token::decode_turn("invalid-token"),
            Err(Failure::InvalidToken)
        ));
    }
}
