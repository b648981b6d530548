//! The queue of a model: sentences of many requests, joined into batches.
//!
//! Requests take turns: a batch has a few sentences of each, so that a short request does not wait for the end of a long
//! one. Only sentences for the same settings of the model share a batch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::batch::{Batch, Job};
use super::limits::Limits;
use super::metrics::ModelMetrics;
use super::request::{Request, TagFailure, Ticket, lock};
use crate::encoder::EncodedSentence;
use crate::error::Result;
use crate::model::tagger::Tagger;
use crate::text::Sentence;

/// Word pieces that a request has in a batch before it is the next one's turn.
const TURN: usize = 512;

/// Sentences of a request that wait.
struct Pending {
    tagger: Arc<dyn Tagger>,
    jobs: VecDeque<Job>,
    /// Pieces of the jobs.
    pieces: usize,
    arrived: Instant,
    request: Arc<Request>,
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
        let (request, ticket) = Request::new(submission.sentences.len());
        if submission.sentences.is_empty() {
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

impl State {
    /// A batch for the tagger of the first request; `None` without requests.
    fn take_batch(&mut self, most: usize) -> Option<Batch> {
        let mut batch = Batch::new(self.requests.front()?.tagger.clone());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::heads::Diagnosis;
    use crate::text::{Labels, Mention};

    /// Finds nothing; fails at `bad`, and remembers the first words of each batch.
    struct Recorder {
        labels: Labels,
        batches: Mutex<Vec<String>>,
    }

    impl Tagger for Recorder {
        fn tag(&self, sentences: &[Sentence]) -> Result<Vec<Vec<Mention>>> {
            let words = sentences
                .iter()
                .map(|sentence| sentence.words[0].text.as_str());
            let words = words.collect::<Vec<_>>().join(" ");
            let is_bad = words.contains("bad");
            lock(&self.batches).push(words);
            if is_bad {
                return Err(Error::Device("told to fail".into()));
            }
            Ok(vec![Vec::new(); sentences.len()])
        }

        fn diagnose(&self, sentences: &[Sentence]) -> Result<Diagnosis> {
            Ok(Diagnosis::of(self.tag(sentences)?))
        }

        fn labels(&self) -> &Labels {
            &self.labels
        }

        fn nested(&self) -> bool {
            false
        }
    }

    fn recorder() -> Arc<Recorder> {
        Arc::new(Recorder {
            labels: Labels::default(),
            batches: Mutex::default(),
        })
    }

    fn queue(queue: usize, batch: usize) -> Queue {
        let limits = Limits {
            queue,
            batch,
            ..Limits::default()
        };
        Queue::new(limits, Arc::default())
    }

    /// A request of so many sentences, each with a name and as many pieces as wanted.
    fn submission(tagger: &Arc<Recorder>, name: &str, count: usize, pieces: usize) -> Submission {
        let sentence = Sentence::from_words(std::iter::repeat_n(name, pieces - 2));
        let sentences = vec![sentence; count];
        Submission {
            encoded: tagger.encode(&sentences),
            sentences,
            tagger: tagger.clone(),
        }
    }

    fn answer(ticket: Ticket) -> Result<usize, TagFailure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(ticket.answer()).map(|parts| parts.len())
    }

    fn submitted(queue: &Queue, submission: Submission) -> Ticket {
        queue
            .submit(submission)
            .unwrap_or_else(|_| panic!("the queue is full"))
    }

    #[test]
    fn requests_take_turns() {
        let (queue, tagger) = (queue(1 << 20, 1000), recorder());
        let long = submitted(&queue, submission(&tagger, "long", 30, 100));
        let short = submitted(&queue, submission(&tagger, "short", 1, 100));
        assert_eq!(queue.waiting(), 3100);
        queue.end();
        queue.work();
        assert_eq!((answer(long), answer(short)), (Ok(30), Ok(1)));
        assert_eq!(queue.waiting(), 0);
        let batches = lock(&tagger.batches);
        assert!(batches[0].contains("short"), "{batches:?}");
        assert!(
            batches.iter().all(|batch| batch.split(' ').count() <= 10),
            "{batches:?}"
        );
    }

    #[test]
    fn other_settings_have_other_batches() {
        let (queue, one, two) = (queue(1 << 20, 1000), recorder(), recorder());
        let taggers = [&one, &two, &one, &two];
        let tickets = taggers.map(|tagger| submitted(&queue, submission(tagger, "x", 2, 10)));
        queue.end();
        queue.work();
        tickets
            .into_iter()
            .for_each(|ticket| assert_eq!(answer(ticket), Ok(2)));
        assert_eq!(*lock(&one.batches), ["x x x x"]);
        assert_eq!(*lock(&two.batches), ["x x x x"]);
    }

    #[test]
    fn only_a_bad_request_fails() {
        let (queue, tagger) = (queue(1 << 20, 1000), recorder());
        let names = ["a", "bad", "c"];
        let tickets = names.map(|name| submitted(&queue, submission(&tagger, name, 2, 10)));
        queue.end();
        queue.work();
        let found = tickets.map(answer);
        assert_eq!((&found[0], &found[2]), (&Ok(2), &Ok(2)));
        assert!(matches!(&found[1], Err(TagFailure::Tagger(problem)) if problem == "told to fail"));
    }

    #[test]
    fn a_full_queue_refuses_and_dropped_requests_make_room() {
        let (queue, tagger) = (queue(20, 1000), recorder());
        let first = submitted(&queue, submission(&tagger, "a", 3, 10));
        assert!(queue.is_full() && queue.submit(submission(&tagger, "b", 1, 10)).is_err());
        drop(first);
        queue.forget_dropped(&mut lock(&queue.state));
        assert_eq!(queue.waiting(), 0);
        let second = submitted(&queue, submission(&tagger, "c", 1, 10));
        queue.end();
        queue.work();
        assert_eq!(answer(second), Ok(1));
        assert_eq!(*lock(&tagger.batches), ["c"]);
        // Nothing is lost silently after the end.
        let late = submitted(&queue, submission(&tagger, "d", 1, 10));
        assert_eq!(answer(late), Err(TagFailure::Ended));
        assert_eq!(
            answer(submitted(&queue, submission(&tagger, "e", 0, 10))),
            Ok(0)
        );
    }
}
