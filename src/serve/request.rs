//! A request in the queue of a model, and the place that its client holds there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::error::Result;
use crate::text::{Mention, Sentence};

/// A sentence with its mentions.
pub(super) type TaggedPart = (Sentence, Vec<Mention>);

/// Why sentences could not be tagged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TagFailure {
    /// The tagger failed.
    Tagger(String),
    /// The service has ended.
    Ended,
}

/// The answer to a request, as far as it is known.
pub(super) struct Request {
    /// Nobody waits for the answer any more.
    is_dropped: AtomicBool,
    answer: Mutex<Answer>,
}

struct Answer {
    parts: Vec<Option<TaggedPart>>,
    missing: usize,
    sender: Option<oneshot::Sender<Result<Vec<TaggedPart>, TagFailure>>>,
}

impl Request {
    /// A request of so many parts, and the place of its client.
    pub fn new(count: usize) -> (Arc<Self>, Ticket) {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        if count == 0
            && let Some(sender) = sender.take()
        {
            let _ = sender.send(Ok(Vec::new()));
        }
        let request = Arc::new(Self {
            is_dropped: AtomicBool::new(false),
            answer: Mutex::new(Answer {
                parts: (0..count).map(|_| None).collect(),
                missing: count,
                sender,
            }),
        });
        let ticket = Ticket {
            receiver,
            request: request.clone(),
        };
        (request, ticket)
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// Adds a part of the answer, and sends the answer with the last one.
    pub fn add(&self, index: usize, part: TaggedPart) {
        let mut answer = lock(&self.answer);
        if answer.parts[index].replace(part).is_none() {
            answer.missing -= 1;
        }
        if answer.missing == 0
            && let Some(sender) = answer.sender.take()
        {
            let parts = std::mem::take(&mut answer.parts);
            let _ = sender.send(Ok(parts.into_iter().flatten().collect()));
        }
    }

    /// Sends a failure as the answer.
    pub fn fail(&self, failure: TagFailure) {
        self.is_dropped.store(true, Ordering::Relaxed);
        if let Some(sender) = lock(&self.answer).sender.take() {
            let _ = sender.send(Err(failure));
        }
    }
}

/// A place in the queue. Whoever drops it gives it up.
pub(super) struct Ticket {
    receiver: oneshot::Receiver<Result<Vec<TaggedPart>, TagFailure>>,
    request: Arc<Request>,
}

impl Ticket {
    /// The sentences with their mentions, in the order they were put in.
    pub async fn answer(mut self) -> Result<Vec<TaggedPart>, TagFailure> {
        (&mut self.receiver).await.unwrap_or(Err(TagFailure::Ended))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.request.is_dropped.store(true, Ordering::Relaxed);
    }
}

/// Locks; a panic elsewhere does not matter to what is behind the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
