//! The queue of a model: sentences of many requests, joined into batches.
//!
//! Requests take turns: a batch has a few sentences of each, so that a short request does not wait for the end of a long
//! one. Only sentences for the same settings of the model share a batch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::limits::Limits;
use super::metrics::ModelMetrics;
use crate::encoder::EncodedSentence;
use crate::error::{Error, Result};
use crate::model::tagger::Tagger;
use crate::process;
use crate::text::{Mention, Sentence};

/// Most sentences of a batch.
const SENTENCES: usize = 512;

/// Word pieces that a request has in a batch before it is the next one's turn.
const TURN: usize = 512;

/// Pieces that every sentence has in addition to those of its words.
const SPECIAL_PIECES: usize = 2;

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

/// Sentences of a request that wait.
struct Pending {
    tagger: Arc<dyn Tagger>,
    jobs: VecDeque<Job>,
    /// Pieces of the jobs.
    pieces: usize,
    arrived: Instant,
    request: Arc<Request>,
}

struct Job {
    /// Its index in the request.
    index: usize,
    sentence: Sentence,
    encoded: EncodedSentence,
}

/// The answer to a request, as far as it is known.
struct Request {
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
    fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    fn add(&self, index: usize, part: TaggedPart) {
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

    fn fail(&self, failure: TagFailure) {
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

/// Sentences of a request with their pieces, before they are put into the queue.
pub(super) struct Submission {
    pub tagger: Arc<dyn Tagger>,
    pub sentences: Vec<Sentence>,
    pub encoded: Vec<EncodedSentence>,
}

/// The queue of a model.
pub(super) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    /// A request came, or the queue ends.
    changed: Condvar,
    /// A batch was taken.
    room: Notify,
    /// Pieces that wait.
    waiting: AtomicUsize,
    /// Pieces that are tagged in a second, as measured.
    speed: AtomicU64,
    metrics: Arc<ModelMetrics>,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Pending>,
    has_ended: bool,
}

/// Sentences that are tagged together, each with its request and its index there.
struct Batch {
    tagger: Arc<dyn Tagger>,
    sentences: Vec<Sentence>,
    encoded: Vec<EncodedSentence>,
    owners: Vec<(Arc<Request>, usize)>,
    pieces: usize,
}

impl Queue {
    pub fn new(limits: Limits, metrics: Arc<ModelMetrics>) -> Self {
        Self {
            limits,
            state: Mutex::default(),
            changed: Condvar::new(),
            room: Notify::new(),
            waiting: AtomicUsize::new(0),
            speed: AtomicU64::new(0),
            metrics,
        }
    }

    /// Pieces that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// True when no further request is taken.
    pub fn is_full(&self) -> bool {
        self.waiting() >= self.limits.queue
    }

    /// Seconds until what waits is done, as far as can be told.
    pub fn seconds_left(&self) -> u64 {
        let speed = self.speed.load(Ordering::Relaxed).max(1);
        (self.waiting() as u64).div_ceil(speed).clamp(1, 60)
    }

    /// Puts sentences into the queue; gives them back when it is full.
    pub fn submit(&self, submission: Submission) -> Result<Ticket, Submission> {
        let mut state = lock(&self.state);
        if self.is_full() {
            return Err(submission);
        }
        let (sender, receiver) = oneshot::channel();
        let count = submission.sentences.len();
        let request = Arc::new(Request {
            is_dropped: AtomicBool::new(false),
            answer: Mutex::new(Answer {
                parts: (0..count).map(|_| None).collect(),
                missing: count,
                sender: Some(sender),
            }),
        });
        let ticket = Ticket {
            receiver,
            request: request.clone(),
        };
        if count == 0 {
            if let Some(sender) = lock(&request.answer).sender.take() {
                let _ = sender.send(Ok(Vec::new()));
            }
            return Ok(ticket);
        }
        if state.has_ended {
            request.fail(TagFailure::Ended);
            return Ok(ticket);
        }
        let jobs: VecDeque<Job> = (submission.sentences.into_iter().zip(submission.encoded))
            .enumerate()
            .map(|(index, (sentence, encoded))| Job {
                index,
                sentence,
                encoded,
            })
            .collect();
        let pieces = jobs.iter().map(Job::pieces).sum();
        self.waiting.fetch_add(pieces, Ordering::Relaxed);
        state.requests.push_back(Pending {
            tagger: submission.tagger,
            jobs,
            pieces,
            arrived: Instant::now(),
            request,
        });
        drop(state);
        self.changed.notify_one();
        Ok(ticket)
    }

    /// Puts sentences into the queue as soon as there is room.
    pub async fn submit_when_free(&self, mut submission: Submission) -> Ticket {
        loop {
            let room = self.room.notified();
            match self.submit(submission) {
                Ok(ticket) => return ticket,
                Err(back) => submission = back,
            }
            // The worker may have taken a batch between the attempt and now: not only the notice ends the wait.
            let _ = tokio::time::timeout(Duration::from_millis(100), room).await;
        }
    }

    /// Lets [`work`](Self::work) return after what waits is done.
    pub fn end(&self) {
        lock(&self.state).has_ended = true;
        self.changed.notify_all();
    }

    /// Tags what comes, batch by batch, until the queue ends.
    pub fn work(&self) {
        while let Some(batch) = self.next_batch() {
            self.room.notify_waiters();
            let (pieces, start) = (batch.pieces, Instant::now());
            (self.metrics).start_batch(batch.sentences.len(), pieces);
            batch.run(&self.metrics);
            let seconds = start.elapsed().as_secs_f64().max(1e-6);
            self.metrics.end_batch(seconds);
            let speed = self.speed.load(Ordering::Relaxed) as f64;
            let measured = pieces as f64 / seconds;
            let speed = if speed > 0.0 {
                0.8 * speed + 0.2 * measured
            } else {
                measured
            };
            self.speed.store(speed as u64, Ordering::Relaxed);
        }
    }

    /// Waits for requests and takes a batch; `None` at the end. A batch that is not full waits for others until its first
    /// request has waited long enough.
    fn next_batch(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        loop {
            self.forget_dropped(&mut state);
            let Some(first) = state.requests.front() else {
                if state.has_ended {
                    return None;
                }
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = self.limits.wait.saturating_sub(first.arrived.elapsed());
            if left.is_zero() || self.waiting() >= self.limits.batch || state.has_ended {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let batch = state.take_batch(self.limits.batch)?;
        self.waiting.fetch_sub(batch.pieces, Ordering::Relaxed);
        Some(batch)
    }

    /// Removes requests whose client is gone.
    fn forget_dropped(&self, state: &mut State) {
        let mut pieces = 0;
        state.requests.retain(|pending| {
            let is_dropped = pending.request.is_dropped();
            if is_dropped {
                pieces += pending.pieces;
                self.metrics.drop_sentences(pending.jobs.len());
            }
            !is_dropped
        });
        if pieces > 0 {
            self.waiting.fetch_sub(pieces, Ordering::Relaxed);
            self.room.notify_waiters();
        }
    }
}

impl Job {
    fn pieces(&self) -> usize {
        self.encoded.pieces() + SPECIAL_PIECES
    }
}

impl State {
    /// A batch for the tagger of the first request; `None` without requests.
    fn take_batch(&mut self, most: usize) -> Option<Batch> {
        let mut batch = Batch {
            tagger: self.requests.front()?.tagger.clone(),
            sentences: Vec::new(),
            encoded: Vec::new(),
            owners: Vec::new(),
            pieces: 0,
        };
        let mut others = Vec::new();
        while batch.has_room(most) {
            let Some(mut pending) = self.requests.pop_front() else {
                break;
            };
            if !Arc::ptr_eq(&pending.tagger, &batch.tagger) {
                others.push(pending);
                continue;
            }
            let end = batch.pieces + TURN;
            while batch.pieces < end
                && batch.has_room(most)
                && let Some(job) = pending.jobs.pop_front()
            {
                pending.pieces -= job.pieces();
                batch.push(job, &pending.request);
            }
            if !pending.jobs.is_empty() {
                self.requests.push_back(pending);
            }
        }
        // They have waited longer than those behind them.
        for pending in others.into_iter().rev() {
            self.requests.push_front(pending);
        }
        Some(batch)
    }
}

impl Batch {
    fn has_room(&self, most: usize) -> bool {
        self.pieces < most && self.sentences.len() < SENTENCES
    }

    fn push(&mut self, job: Job, request: &Arc<Request>) {
        self.pieces += job.pieces();
        self.owners.push((request.clone(), job.index));
        self.sentences.push(job.sentence);
        self.encoded.push(job.encoded);
    }

    /// Tags the sentences and answers their requests. If that fails, each request is tried alone, so that one text cannot
    /// make the requests of others fail.
    fn run(self, metrics: &ModelMetrics) {
        match tag(&*self.tagger, &self.sentences, &self.encoded) {
            Ok(mentions) => self.answer(mentions),
            Err(problem) => {
                metrics.fail_batch();
                tracing::warn!("a batch failed: {problem}");
                let groups = self.by_request();
                if let [only] = &groups[..] {
                    only.owners[0].0.fail(TagFailure::Tagger(problem));
                    return;
                }
                for group in groups {
                    match tag(&*group.tagger, &group.sentences, &group.encoded) {
                        Ok(mentions) => group.answer(mentions),
                        Err(problem) => group.owners[0].0.fail(TagFailure::Tagger(problem)),
                    }
                }
            }
        }
    }

    fn answer(self, mentions: Vec<Vec<Mention>>) {
        let parts = self.sentences.into_iter().zip(mentions);
        for ((request, index), part) in self.owners.into_iter().zip(parts) {
            request.add(index, part);
        }
    }

    /// A batch for each request.
    fn by_request(self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let sentences = self.sentences.into_iter().zip(self.encoded);
        for ((request, index), (sentence, encoded)) in self.owners.into_iter().zip(sentences) {
            let of_request = |batch: &&mut Batch| Arc::ptr_eq(&batch.owners[0].0, &request);
            let job = Job {
                index,
                sentence,
                encoded,
            };
            match batches.iter_mut().find(of_request) {
                Some(batch) => batch.push(job, &request),
                None => {
                    let mut batch = Batch {
                        tagger: self.tagger.clone(),
                        sentences: Vec::new(),
                        encoded: Vec::new(),
                        owners: Vec::new(),
                        pieces: 0,
                    };
                    batch.push(job, &request);
                    batches.push(batch);
                }
            }
        }
        batches
    }
}

/// The mentions of sentences; a panic is an error.
fn tag(
    tagger: &dyn Tagger,
    sentences: &[Sentence],
    encoded: &[EncodedSentence],
) -> Result<Vec<Vec<Mention>>, String> {
    let result = process::catch(|| tagger.tag_encoded(sentences, encoded));
    let mentions = result
        .map_err(|panic| format!("panic: {panic}"))?
        .map_err(|error: Error| error.chain())?;
    if mentions.len() != sentences.len() {
        return Err(format!(
            "{} sentences were tagged as {}",
            sentences.len(),
            mentions.len()
        ));
    }
    Ok(mentions)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
