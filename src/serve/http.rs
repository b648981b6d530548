//! Connections: accepting them, closing those that stand still, and ending them in order.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::limits::Limits;

/// Time for the head of a request.
const HEAD: Duration = Duration::from_secs(15);

/// Time between the signal to stop and the end of idle connections: requests that are already on their way still come.
const GRACE: Duration = Duration::from_millis(250);

/// Serves connections until the service is told to stop, then those that are open. Returns false if some had to be cut off.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: &Limits,
    mut stopping: watch::Receiver<bool>,
) -> bool {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(limits.connections.max(1)));
    // Requests end after their time limit; a connection lives longer only if it is used.
    let idle = limits.timeout + Duration::from_secs(15);
    let start = |stream: TcpStream, place| {
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let stream = TokioIo::new(Watched::new(stream, idle));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(stream, service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(problem) = connection.await {
                tracing::debug!("a connection ended: {problem}");
            }
            drop(place);
        });
    };
    loop {
        let accepting = async {
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            accepted = accepting => accepted,
        };
        match accepted {
            Ok((stream, _)) => start(stream, place),
            // Such as too many open files: others will close theirs.
            Err(problem) => {
                tracing::warn!("a connection could not be accepted: {problem}");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    // Clients that are connected already, from the system's point of view, are served, too.
    while let Ok(place) = places.clone().try_acquire_owned()
        && let Ok(Ok((stream, _))) = timeout(Duration::from_millis(1), listener.accept()).await
    {
        start(stream, Ok(place));
    }
    drop(listener);
    sleep(GRACE).await;
    timeout(limits.timeout + HEAD, graceful.shutdown())
        .await
        .is_ok()
}

/// Waits until the service is told to stop.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Fails only if nobody can tell any more.
    let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
}

/// A connection that fails when no byte goes in or out for some time.
struct Watched {
    stream: TcpStream,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Watched {
    fn new(stream: TcpStream, idle: Duration) -> Self {
        Self {
            stream,
            idle,
            timer: Box::pin(sleep(idle)),
        }
    }

    /// Passes on what a read or write returned. Progress restarts the timer.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.timer.as_mut().reset(Instant::now() + self.idle);
            return result;
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.watch(context, result)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.watch(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
