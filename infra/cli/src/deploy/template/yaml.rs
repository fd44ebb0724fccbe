//! YAML as JSON, with the short forms of CloudFormation's functions in their long form: `!Sub x` is `{"Fn::Sub": "x"}`.
//!
//! JSON has one form for each value, so that what is merged and written cannot be read differently by another YAML parser.

use saphyr::{LoadableYamlNode as _, Scalar, Tag, Yaml};
use serde_json::{Map, Value, json};

/// The functions of CloudFormation that have a short form.
const FUNCTIONS: [&str; 25] = [
    "And",
    "Base64",
    "Cidr",
    "Contains",
    "EachMemberEquals",
    "EachMemberIn",
    "Equals",
    "FindInMap",
    "ForEach",
    "GetAZs",
    "GetAtt",
    "If",
    "ImportValue",
    "Join",
    "Length",
    "Not",
    "Or",
    "RefAll",
    "Select",
    "Split",
    "Sub",
    "ToJsonString",
    "Transform",
    "ValueOf",
    "ValueOfAll",
];

/// Why a text is not a template or an overlay.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::deploy) enum YamlError {
    #[error("{0}")]
    Syntax(String),
    #[error("it must be one YAML document")]
    Documents,
    #[error("it has the tag !{0}, which CloudFormation does not know")]
    Tag(String),
    #[error("a key of a mapping is not a text: {0}")]
    Key(String),
    #[error("it has a value that cannot be written as JSON: {0}")]
    Value(String),
}

/// Reads a document. An empty one is null.
pub(in crate::deploy) fn parse(text: &str) -> Result<Value, YamlError> {
    let mut documents = Yaml::load_from_str(text).map_err(|error| YamlError::Syntax(error.to_string()))?;
    match (documents.pop(), documents.is_empty()) {
        (Some(document), true) => value(&document),
        (None, _) => Ok(Value::Null),
        (Some(_), false) => Err(YamlError::Documents),
    }
}

fn value(node: &Yaml<'_>) -> Result<Value, YamlError> {
    match node {
        Yaml::Value(scalar) => self::scalar(scalar),
        Yaml::Sequence(items) => Ok(Value::Array(items.iter().map(value).collect::<Result<_, _>>()?)),
        Yaml::Mapping(pairs) => {
            let mut map = Map::new();
            for (name, of) in pairs {
                map.insert(key(name)?, value(of)?);
            }
            Ok(Value::Object(map))
        }
        Yaml::Tagged(tag, of) => call(tag, value(of)?),
        other => Err(YamlError::Value(format!("{other:?}"))),
    }
}

fn scalar(scalar: &Scalar<'_>) -> Result<Value, YamlError> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(it) => json!(it),
        Scalar::Integer(it) => json!(it),
        Scalar::FloatingPoint(it) => serde_json::Number::from_f64(it.into_inner())
            .map(Value::Number)
            .ok_or_else(|| YamlError::Value(it.to_string()))?,
        Scalar::String(it) => json!(it),
    })
}

/// Numbers and words are texts as keys, as in JSON.
fn key(node: &Yaml<'_>) -> Result<String, YamlError> {
    match value(node)? {
        Value::String(text) => Ok(text),
        it @ (Value::Number(_) | Value::Bool(_)) => Ok(it.to_string()),
        other => Err(YamlError::Key(other.to_string())),
    }
}

/// The long form of a short one.
fn call(tag: &Tag, argument: Value) -> Result<Value, YamlError> {
    let name = tag.suffix.as_str();
    if tag.is_yaml_core_schema() {
        return Ok(argument);
    }
    let argument = match (name, argument) {
        // `!GetAtt A.B.C` is the attribute `B.C` of A.
        ("GetAtt", Value::String(path)) => match path.split_once('.') {
            Some((resource, attribute)) => json!([resource, attribute]),
            None => return Err(YamlError::Value(format!("!GetAtt {path} names no attribute"))),
        },
        (_, argument) => argument,
    };
    match name {
        "Ref" | "Condition" => Ok(json!({ name: argument })),
        _ if FUNCTIONS.contains(&name) => Ok(json!({ format!("Fn::{name}"): argument })),
        _ => Err(YamlError::Tag(name.to_owned())),
    }
}

/// The function that a value calls, with its argument.
pub(in crate::deploy) fn function(value: &Value) -> Option<(&str, &Value)> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let (name, argument) = object.iter().next()?;
    let is_function = name == "Ref" || name == "Condition" || name.starts_with("Fn::");
    is_function.then_some((name, argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_become_long_ones_and_quoted_numbers_stay_texts() {
        let text = "a: !Sub '${AWS::StackName}-x'\nb: !GetAtt Queue.Arn\nc: !If [X, !Ref Y, 3]\nd: '30'\ne: 1.5\n\
                    f: !Sub\n  - ${A}\n  - A: !Select [0, [x]]\ng: true\nh:\n1: ~\n";
        let expected = json!({
            "a": {"Fn::Sub": "${AWS::StackName}-x"},
            "b": {"Fn::GetAtt": ["Queue", "Arn"]},
            "c": {"Fn::If": ["X", {"Ref": "Y"}, 3]},
            "d": "30",
            "e": 1.5,
            "f": {"Fn::Sub": ["${A}", {"A": {"Fn::Select": [0, ["x"]]}}]},
            "g": true,
            "h": null,
            "1": null,
        });
        assert_eq!(parse(text), Ok(expected));
        assert_eq!(parse("# nothing\n"), Ok(Value::Null));
    }

    #[test]
    fn what_cloudformation_does_not_know_is_named() {
        assert_eq!(parse("a: !Subst x"), Err(YamlError::Tag("Subst".to_owned())));
        assert_eq!(parse("a: 1\n---\nb: 2"), Err(YamlError::Documents));
        for text in ["a: [1", "a: !GetAtt Queue", "[a]: b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
