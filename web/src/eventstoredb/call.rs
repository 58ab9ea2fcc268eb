//! Serves a function as a gRPC call.

use std::task::{Context, Poll};

use prost::Message;
use tonic::codec::ProstCodec;
use tonic::codegen::Service;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};

/// A gRPC codec. A client's message has at most `limit` bytes, plus its protobuf framing.
pub(super) fn grpc<Answer, Question>(limit: usize) -> Grpc<ProstCodec<Answer, Question>>
where
    Answer: Message + Send + 'static,
    Question: Message + Default + Send + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(limit.saturating_add(64 << 10))
}

/// Adapts a function from a message (or a stream of messages) to a future.
pub(super) struct GrpcHandler<F>(pub(super) F);

impl<F, Doing, Question, Answer> Service<Request<Question>> for GrpcHandler<F>
where
    F: FnMut(Question) -> Doing,
    Doing: Future<Output = Result<Response<Answer>, Status>>,
{
    type Response = Response<Answer>;
    type Error = Status;
    type Future = Doing;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Question>) -> Doing {
        (self.0)(request.into_inner())
    }
}
