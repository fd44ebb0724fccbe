//! Between Lambda's events and the router: what only the host knows goes into the request.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use duroxide_lambda::log;
use duroxide_lambda_api::Invocation;
use lambda_http::request::RequestContext;
use lambda_http::tower::Service;
use lambda_http::{Context, Request, RequestExt as _};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The router as Lambda calls it.
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    router: Router,
}

impl Adapter {
    pub(crate) fn new(router: Router) -> Adapter {
        Adapter { router }
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl Service<Request> for Adapter {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answer {
        let mut router = self.router.clone();
        let context = request.lambda_context_ref().cloned();
        let invocation = Invocation {
            caller: request.request_context_ref().and_then(caller),
            deadline: context.as_ref().map(deadline),
        };
        let mut request = request.map(Body::from_lambda);
        request.extensions_mut().insert(invocation);
        Box::pin(async move {
            let _request = context.map(|context| log::invocation(&context.request_id));
            router.call(request).await
        })
    }
}
