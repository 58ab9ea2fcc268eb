//! Serves a function as a gRPC call.

use std::task::{Context, Poll};

use prost::Message;
use tonic::codec::ProstCodec;
use tonic::codegen::Service;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};

/// A gRPC server. A client's message has at most `limit` bytes, plus 64 KiB for its protobuf framing.
pub(super) fn grpc<ResponseMessage, RequestMessage>(limit: usize) -> Grpc<ProstCodec<ResponseMessage, RequestMessage>>
where
    ResponseMessage: Message + Send + 'static,
    RequestMessage: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(limit.saturating_add(64 << 10))
}

/// A gRPC method. The function takes a message or a stream of messages, and returns a future of the response.
pub(super) struct GrpcHandler<F>(pub(super) F);

impl<F, HandlerFuture, RequestMessage, ResponseMessage> Service<Request<RequestMessage>> for GrpcHandler<F>
where
    F: FnMut(RequestMessage) -> HandlerFuture,
    HandlerFuture: Future<Output = Result<Response<ResponseMessage>, Status>>,
{
    type Response = Response<ResponseMessage>;
    type Error = Status;
    type Future = HandlerFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestMessage>) -> HandlerFuture {
        (self.0)(request.into_inner())
    }
}
