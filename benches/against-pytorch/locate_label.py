"""Locate and Label (Shen et al., 2021), with the settings of `preset = "paper"` and the lengths of GENIA.

Spans of up to ten words, the seeds, go through a filter, a regressor moves the boundaries of those it keeps, and a
classifier labels the moved spans. Spans have a first and a last word, both inclusive.
"""

from functools import cache

import numpy
import torch
from torch import nn
from torch.nn.functional import cross_entropy, logsigmoid, smooth_l1_loss

import spans

WINDOWS = range(1, 11)
POSITIVE_IOU = 0.7
NEGATIVES, EXTRA_NEGATIVES = 5, 2
GAMMA = 2
REGRESSOR_WEIGHT = 0.1
DECAY, SUPPRESSION_IOU, THRESHOLD = 0.9, 0.7, 0.45


@cache
def seeds(length):
    """The seeds of a sentence by length, then start: [seeds, 2]."""
    return numpy.array([(s, s + w - 1) for w in WINDOWS for s in range(length - w + 1)], dtype=numpy.int64)


def iou(one, other):
    """Intersection over union of spans [..., 2]; the same for tensors and arrays."""
    lower, upper = (torch.minimum, torch.maximum) if torch.is_tensor(one) else (numpy.minimum, numpy.maximum)
    shared = lower(one[..., 1], other[..., 1]) - upper(one[..., 0], other[..., 0]) + 1
    hull = upper(one[..., 1], other[..., 1]) - lower(one[..., 0], other[..., 0]) + 1
    return shared.clip(min=0) / hull


def scorer(width, outputs):
    return nn.Sequential(nn.Dropout(0.5), nn.Linear(3 * width, width), nn.GELU(), nn.Linear(width, outputs))


class Head(nn.Module):
    rate = 1e-3
    tensor_functions = ["inner", "outer"]

    def __init__(self, width, types):
        super().__init__()
        self.filter = scorer(width, 1)
        self.regressor = scorer(width, 2)
        self.classifier = scorer(width, types + 1)

    @staticmethod
    def targets(sentences):
        """Positive seeds and a random sample of the others, each with the entity of the highest IoU."""
        examples, weights = [], []
        for row, (words, entities) in enumerate(sentences):
            gold = {}
            for start, end, kind in entities:
                gold.setdefault((start, end - 1), kind + 1)
            every = seeds(len(words))
            if gold:
                entity, classes = numpy.array(list(gold)), numpy.array(list(gold.values()))
                overlap = iou(every[:, None], entity[None])
                nearest, best = overlap.argmax(1), overlap.max(1)
                pairs = numpy.column_stack([entity[nearest], classes[nearest]])
                # A seed that overlaps no entity is paired with none: class 0, and a span that it can never reach.
                pairs[best == 0] = (-2, -2, 0)
            else:
                best, pairs = numpy.zeros(len(every)), numpy.tile([-2, -2, 0], (len(every), 1))
            positive = best > POSITIVE_IOU
            others = numpy.flatnonzero(~positive)
            wanted = min(NEGATIVES * positive.sum() + EXTRA_NEGATIVES, len(others))
            chosen = numpy.concatenate([numpy.flatnonzero(positive), numpy.random.choice(others, wanted, replace=False)])
            column = numpy.full(len(chosen), row)
            examples.append(numpy.column_stack([column, every[chosen], pairs[chosen], positive[chosen]]))
            weights.append(numpy.where(positive, best, 1 - best)[chosen])
        examples = torch.from_numpy(numpy.concatenate(examples))
        return {"examples": examples, "weights": torch.from_numpy(numpy.concatenate(weights)).float()}

    def inner(self, layers, words, sentence, first, last, pooled):
        """Scores from the first and last word of each span and its maximum."""
        parts = [spans.rows(words, sentence, first), spans.rows(words, sentence, last), pooled]
        return layers(torch.cat(parts, 1))

    def outer(self, words, lengths, sentence, first, last, pooled):
        """Offsets of the boundaries from the words around each span and its maximum."""
        before, after = (first - 1).clamp(min=0), torch.minimum(last + 1, lengths[sentence] - 1)
        parts = [spans.rows(words, sentence, before), spans.rows(words, sentence, after), pooled]
        return self.regressor(torch.cat(parts, 1))

    @staticmethod
    def moved(lengths, sentence, first, last, offsets):
        """Spans with rounded offsets added, clamped to the sentence; unmoved if nothing would be left."""
        step = (offsets.detach() + 0.5).floor().long()
        start, end = (first + step[:, 0]).clamp(min=0), torch.minimum(last + step[:, 1], lengths[sentence] - 1)
        legal = start <= end
        return torch.where(legal, start, first), torch.where(legal, end, last)

    def loss(self, states, batch):
        words, lengths = states.words, states.lengths
        sentence, first, last, left, right, gold, positive = batch["examples"].unbind(1)
        weights = batch["weights"]
        pooled = spans.max_pool(words, sentence, first, last)
        score = self.inner(self.filter, words, sentence, first, last, pooled).squeeze(1)
        log_probability = logsigmoid(torch.where(positive > 0, score, -score))
        focal = -((1 - log_probability.exp()) ** GAMMA) * log_probability
        filtered = (focal * weights).sum()

        offsets = self.outer(words, lengths, sentence, first, last, pooled)
        seed, entity = torch.stack([first, last], 1), torch.stack([left, right], 1)
        used = positive > 0
        shift = (entity - seed)[used].float()
        smooth = smooth_l1_loss(offsets[used], shift, reduction="sum")
        # Boundaries between words, so that a span of one word has a length of 1.
        one, other = (seed[used] + offsets[used]).unbind(1), entity[used].unbind(1)
        shared = torch.minimum(one[1], other[1]) - torch.maximum(one[0], other[0]) + 1
        hull = torch.maximum(one[1], other[1]) - torch.minimum(one[0], other[0]) + 1
        overlap = (1 - shared / hull).sum()

        start, end = self.moved(lengths, sentence, first, last, offsets)
        pooled = spans.max_pool(words, sentence, start, end)
        scores = self.inner(self.classifier, words, sentence, start, end, pooled)
        reached = iou(torch.stack([start, end], 1), entity)
        close = reached >= 1
        classes = cross_entropy(scores, torch.where(close, gold, 0), reduction="none")
        classes = (classes * torch.where(close, reached, 1 - reached)).sum()
        return (filtered + REGRESSOR_WEIGHT * (smooth + overlap) + classes) / len(first)

    def entities(self, states):
        words, lengths = states.words, states.lengths
        sentence, first, last = spans.every(lengths, max(WINDOWS))
        pooled = spans.max_pool(words, sentence, first, last)
        kept = self.inner(self.filter, words, sentence, first, last, pooled).squeeze(1) > 0
        result = [[] for _ in lengths]
        if not kept.any():
            return result
        sentence, first, last, pooled = sentence[kept], first[kept], last[kept], pooled[kept]
        offsets = self.outer(words, lengths, sentence, first, last, pooled)
        start, end = self.moved(lengths, sentence, first, last, offsets)
        pooled = spans.max_pool(words, sentence, start, end)
        probability, best = self.inner(self.classifier, words, sentence, start, end, pooled).softmax(1).max(1)
        typed = best > 0
        found = torch.stack([sentence, start, end, best - 1], 1)[typed].numpy()
        probability = probability[typed].numpy()
        bounds = numpy.searchsorted(found[:, 0], numpy.arange(len(result) + 1))
        for row in range(len(result)):
            part = slice(bounds[row], bounds[row + 1])
            result[row] = suppressed(found[part, 1:], probability[part])
        return result


def suppressed(found, scores):
    """Soft-NMS of the proposals (first word, last word, type) of one sentence: the best one left lowers the scores of those
    it overlaps."""
    if len(found) == 0:
        return []
    # Each proposal once, with its best score.
    order = numpy.argsort(-scores, kind="stable")
    found, index = numpy.unique(found[order], axis=0, return_index=True)
    scores = scores[order][index].astype(numpy.float64)
    overlaps = iou(found[:, None, :2], found[None, :, :2]) >= SUPPRESSION_IOU
    left = numpy.ones(len(found), dtype=bool)
    entities = []
    while left.any():
        best = int(numpy.where(left, scores, -1.0).argmax())
        if scores[best] <= THRESHOLD:
            break
        left[best] = False
        scores[left & overlaps[best]] *= DECAY
        first, last, kind = found[best].tolist()
        entities.append((first, last + 1, kind))
    return entities
