//! Lock tokens. A token names its document, so that ack, renew and abandon need no search. duroxide keeps it as an opaque
//! string; the provider encodes and decodes it.

use crate::error::Failure;
use cosmos::PartitionKey;
use serde::{Deserialize, Serialize};

/// The token of a claimed turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnToken {
    /// Unique to one claim.
    pub nonce: String,
    pub pk: PartitionKey,
}

/// The token of a claimed work item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkToken {
    /// Unique to one claim.
    pub nonce: String,
    pub pk: PartitionKey,
    /// The id of the document.
    pub id: String,
}

/// The JSON of both.
#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "t")]
    nonce: String,
    #[serde(rename = "i")]
    instance: String,
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    work: Option<String>,
}

impl Token {
    fn encode(nonce: &str, pk: &PartitionKey, work: Option<&str>) -> Result<String, Failure> {
        Ok(serde_json::to_string(&Token {
            nonce: nonce.to_owned(),
            instance: pk.as_str().to_owned(),
            work: work.map(str::to_owned),
        })?)
    }

    fn decode(text: &str) -> Result<(Token, PartitionKey), Failure> {
        let token: Token = serde_json::from_str(text).map_err(|_| Failure::InvalidToken)?;
        let pk = PartitionKey::new(&token.instance)?;
        Ok((token, pk))
    }
}

impl TurnToken {
    pub(crate) fn encode(&self) -> Result<String, Failure> {
        Token::encode(&self.nonce, &self.pk, None)
    }

    pub(crate) fn decode(text: &str) -> Result<Self, Failure> {
        match Token::decode(text)? {
            (Token { nonce, work: None, .. }, pk) => Ok(TurnToken { nonce, pk }),
            _ => Err(Failure::InvalidToken),
        }
    }
}

impl WorkToken {
    pub(crate) fn encode(&self) -> Result<String, Failure> {
        Token::encode(&self.nonce, &self.pk, Some(&self.id))
    }

    pub(crate) fn decode(text: &str) -> Result<Self, Failure> {
        let (token, pk) = Token::decode(text)?;
        Ok(WorkToken {
            nonce: token.nonce,
            pk,
            id: token.work.ok_or(Failure::InvalidToken)?,
        })
    }

    /// The failure of a token whose item was cancelled, completed or claimed by another process.
    pub(crate) fn lost(&self) -> Failure {
        Failure::WorkLost {
            instance: self.pk.as_str().to_owned(),
            work: self.id.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_instance_id_survives_in_a_token() {
        for instance in [
            "a/b",
            "back\\slash",
            "\"q\"",
            "日本 \u{1F600}",
            "with:colons|and{braces}",
        ] {
            let pk = PartitionKey::new(instance).unwrap();
            let nonce = "n".to_owned();
            let token = TurnToken { nonce, pk };
            assert_eq!(TurnToken::decode(&token.encode().unwrap()).unwrap(), token);
        }
    }

    #[test]
    fn a_token_of_the_other_kind_or_garbage_is_invalid() {
        let pk = PartitionKey::new("i").unwrap();
        let (nonce, id) = ("n".to_owned(), "w:1:2".to_owned());
        let turn = TurnToken {
            nonce: nonce.clone(),
            pk: pk.clone(),
        }
        .encode()
        .unwrap();
        let work = WorkToken { nonce, pk, id }.encode().unwrap();
        assert!(matches!(WorkToken::decode(&turn), Err(Failure::InvalidToken)));
        assert!(matches!(TurnToken::decode(&work), Err(Failure::InvalidToken)));
        assert!(matches!(TurnToken::decode("invalid-token"), Err(Failure::InvalidToken)));
    }
}
