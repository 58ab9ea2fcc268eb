//! The HTTP library alone: a handler that returns constant bytes.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use actix_web::{HttpResponse, HttpServer, web};
use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;

use super::client::{LoadClient, LoadTarget};

/// Requests per second of `clients` connections to an actix handler that answers `body`.
pub(crate) fn same_bytes(body: &[u8], clients: usize, time: Duration) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target =
        LoadTarget { address: listener.local_addr()?, token: String::new(), versions: super::client::VERSIONS };
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let body = Bytes::copy_from_slice(body);
    let serving = std::thread::spawn(move || {
        actix_rt::System::new().block_on(async move {
            let server = HttpServer::new(move || {
                let body = body.clone();
                actix_web::App::new().default_service(web::to(move || std::future::ready(answer(body.clone()))))
            });
            let workers = std::thread::available_parallelism().map_or(2, usize::from);
            let server = server.workers(workers).disable_signals().listen(listener)?.run();
            let _ = tell.send(server.handle());
            server.await
        })
    });
    let handle = told.recv().context("the reference does not start")?;
    let measured = ask(&target, clients, time);
    actix_rt::System::new().block_on(handle.stop(false));
    let _ = serving.join();
    measured
}

fn answer(body: Bytes) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(body)
}

fn ask(target: &LoadTarget, clients: usize, time: Duration) -> Result<f64> {
    let began = Instant::now();
    let one = || -> Result<u32> {
        let mut client = LoadClient::new(target);
        let mut answered = 0;
        while began.elapsed() < time {
            client.get("/")?.expect(200)?;
            answered += 1;
        }
        Ok(answered)
    };
    let counts: Vec<Result<u32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a client broke")))).collect()
    });
    let answered: u32 = counts.into_iter().sum::<Result<u32>>()?;
    Ok(f64::from(answered) / began.elapsed().as_secs_f64())
}
