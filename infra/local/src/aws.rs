//! Names of AWS resources: one account, one region, and the ARNs and URLs made of them.

/// The account in queue URLs and ARNs.
pub(crate) const ACCOUNT: &str = "000000000000";
/// The region in ARNs.
pub(crate) const REGION: &str = "us-east-1";

pub(crate) fn queue_arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")
}

/// The URL of a queue at this cloud's endpoint.
pub(crate) fn queue_url(endpoint: &str, queue: &str) -> String {
    format!("{endpoint}/{ACCOUNT}/{queue}")
}

/// The id of a function's URL, which is a part of its host name on Lambda.
pub(crate) fn function_url_name(function: &str) -> String {
    format!("{function}-url")
}

pub(crate) fn function_arn(function: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}")
}
