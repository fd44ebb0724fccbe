//! The API as a Lambda function, behind a function URL or an API Gateway HTTP API. Behind the feature `lambda`.
//!
//! [`run`] is the whole function. The adapter is between Lambda's events and the router: what only the host knows, the caller that
//! AWS has authenticated and the end of the invocation, goes into the request as an [`Invocation`]. The path reaches the router as it
//! was sent.

use crate::{Api, Invocation, router};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use duroxide_lambda::log;
use lambda_http::http::Uri;
use lambda_http::http::uri::PathAndQuery;
use lambda_http::request::RequestContext;
use lambda_http::tower::Service;
use lambda_http::{Request, RequestExt as _};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Serves the API until Lambda ends the process. The settings come from the environment, as those of the other functions do.
///
/// ```no_run
/// #[tokio::main]
/// async fn main() -> Result<(), duroxide_lambda::Error> {
///     duroxide_lambda_api::lambda::run().await
/// }
/// ```
///
/// # Errors
/// When a setting is missing or wrong, or the store cannot be reached.
pub async fn run() -> Result<(), duroxide_lambda::Error> {
    let (config, connection) = duroxide_lambda::connected().await?;
    let api = Api::new(connection, &config.api, config.maintenance.clone());
    lambda_http::run(Adapter { router: router(api) }).await
}

/// The router as Lambda calls it.
#[derive(Clone, Debug)]
struct Adapter {
    router: Router,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Service<Request> for Adapter {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answer {
        let mut router = self.router.clone();
        let context = request.lambda_context_ref().cloned();
        let mut request = adapted(request);
        if let Some(context) = &context {
            let invocation = request.extensions_mut().get_or_insert_default::<Invocation>();
            invocation.deadline = Some(duroxide_lambda::end_of_invocation(context.deadline));
        }
        Box::pin(async move {
            let _request = context.map(|context| log::invocation(&context.request_id));
            router.call(request).await
        })
    }
}

/// The request that the router takes: with the caller that AWS has authenticated, and the path as it was sent.
fn adapted(request: Request) -> axum::extract::Request {
    let invocation = Invocation {
        caller: request.request_context_ref().and_then(caller),
        deadline: None,
    };
    let uri = sent_uri(request.uri(), request.raw_http_path());
    let mut request = request.map(|body| match body {
        lambda_http::Body::Text(text) => Body::from(text),
        lambda_http::Body::Binary(bytes) => Body::from(bytes),
        _ => Body::empty(),
    });
    *request.uri_mut() = uri;
    request.extensions_mut().insert(invocation);
    request
}

/// The ARN of the caller, if AWS has checked a signature.
fn caller(context: &RequestContext) -> Option<String> {
    match context {
        RequestContext::ApiGatewayV2(context) => context.authorizer.as_ref()?.iam.as_ref()?.user_arn.clone(),
        #[allow(
            unreachable_patterns,
            reason = "other kinds of events are other features of lambda_http"
        )]
        _ => None,
    }
}

/// The URI with the path of the event: lambda_http has normalised it as browsers do, which is right for files and not for ids.
fn sent_uri(uri: &Uri, raw_path: &str) -> Uri {
    // A function URL passes the path on as it was sent. An HTTP API decodes it, and these characters would end the path.
    let path = raw_path.replace('?', "%3F").replace('#', "%23");
    let whole = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    whole.parse::<PathAndQuery>().map_or_else(|_| uri.clone(), Uri::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lambda_http::request::from_str;

    fn event(path: &str, authorizer: &str) -> String {
        format!(
            r#"{{"version":"2.0","routeKey":"$default","rawPath":"{path}","rawQueryString":"raw=true&tag=a%3Ab",
                "headers":{{"host":"x.lambda-url.eu-west-1.on.aws","content-type":"application/json"}},
                "requestContext":{{"accountId":"1","apiId":"x","domainName":"x.lambda-url.eu-west-1.on.aws","stage":"$default",
                    "requestId":"r","timeEpoch":1,"http":{{"method":"POST","path":"/","protocol":"HTTP/1.1","sourceIp":"127.0.0.1"}}
                    {authorizer}}},
                "body":"e30=","isBase64Encoded":true}}"#
        )
    }

    #[test]
    fn the_path_arrives_as_it_was_sent() {
        for path in [
            "/v1/instances/a%2Fb",
            "/v1/instances/%2E%2E/history",
            "/v1/instances/..:cancel",
            "/v1/instances/%F0%9F%98%80:cancel",
            "/v1/instances/a%5Cb%22%3F%23",
        ] {
            let request = adapted(from_str(&event(path, "")).unwrap());
            assert_eq!(
                (request.uri().path(), request.uri().query()),
                (path, Some("raw=true&tag=a%3Ab"))
            );
            assert_eq!(request.method(), "POST");
        }
    }

    #[test]
    fn the_caller_is_whom_aws_has_authenticated() {
        let iam = r#","authorizer":{"iam":{"accessKey":"A","accountId":"1","callerId":"c","userArn":"arn:aws:iam::1:user/ada","userId":"u"}}"#;
        for (authorizer, caller) in [("", None), (iam, Some("arn:aws:iam::1:user/ada"))] {
            let request = adapted(from_str(&event("/v1/health", authorizer)).unwrap());
            let invocation = request.extensions().get::<Invocation>().unwrap();
            assert_eq!(invocation.caller.as_deref(), caller);
        }
    }
}
