//! Files that an overlay refers to: `sam` would look for them beside the template, in the directory of the deployment.
//!
//! Only what is in S3, or has an address of its own, can be deployed from there, and again by a rollback.

use serde_json::{Map, Value};

/// The properties of resources that `sam` uploads if they name a file.
const PROPERTIES: [&str; 10] = [
    "Code",
    "CodeUri",
    "Content",
    "ContentUri",
    "DefinitionS3Location",
    "DefinitionUri",
    "Location",
    "SchemaUri",
    "SourceBundle",
    "TemplateURL",
];
/// How an address begins that `sam` leaves as it is.
const REMOTE: [&str; 4] = ["s3://", "https://", "http://", "arn:"];

/// A file of this machine in an overlay.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{property} of {resource} is the file {file} of this machine, which is not deployed: upload it, and give its address in S3 \
     (s3://bucket/key) or the ARN of what you made of it. The archives of your functions follow from [functions]"
)]
pub(in crate::deploy) struct LocalFile {
    resource: String,
    property: &'static str,
    file: String,
}

/// Refuses resources of an overlay that name files.
pub(in crate::deploy) fn refuse(overlay: &Value) -> Result<(), LocalFile> {
    let resources = overlay.get("Resources").and_then(Value::as_object);
    for (name, resource) in resources.into_iter().flatten() {
        let properties = resource.get("Properties").and_then(Value::as_object);
        if let Some((property, file)) = properties.and_then(local) {
            return Err(LocalFile {
                resource: name.clone(),
                property,
                file: file.to_owned(),
            });
        }
    }
    Ok(())
}

/// The first property that is a file.
fn local(properties: &Map<String, Value>) -> Option<(&'static str, &str)> {
    PROPERTIES.into_iter().find_map(|property| {
        let text = properties.get(property)?.as_str()?;
        let is_remote = REMOTE.iter().any(|begin| text.starts_with(begin));
        (!is_remote).then_some((property, text))
    })
}
