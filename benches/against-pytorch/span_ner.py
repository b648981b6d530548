"""SpanNER: a linear classifier of all spans of up to ten words."""

import random

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import spans

LONGEST = 10
NEGATIVES = 100


class Head(nn.Module):
    tensor_functions = ["scores"]

    def __init__(self, width, types):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.lengths = nn.Embedding(LONGEST + 1, 25)
        self.classifier = nn.Linear(4 * width + 25, types + 1)

    @staticmethod
    def targets(sentences):
        chosen, classes = [], []
        for row, (words, entities) in enumerate(sentences):
            gold = {(start, end - 1): kind + 1 for start, end, kind in entities if end - start <= LONGEST}
            every = [(s, e) for s in range(len(words)) for e in range(s, min(s + LONGEST, len(words)))]
            others = [span for span in every if span not in gold]
            mine = list(gold) + random.sample(others, min(NEGATIVES, len(others)))
            chosen += [(row, first, last) for first, last in mine]
            classes += [gold.get(span, 0) for span in mine]
        return {"spans": torch.tensor(chosen), "classes": torch.tensor(classes)}

    def scores(self, words, state, sentence, first, last):
        parts = [spans.rows(words, sentence, first), spans.rows(words, sentence, last)]
        parts += [spans.max_pool(words, sentence, first, last), state.index_select(0, sentence)]
        parts.append(self.lengths(last - first + 1))
        return self.classifier(self.dropout(torch.cat(parts, 1)))

    def loss(self, states, batch):
        scores = self.scores(states.words, states.sentence, *batch["spans"].unbind(1))
        return cross_entropy(scores, batch["classes"])

    def entities(self, states):
        """Flat entities: the most probable first, what overlaps a kept one goes."""
        sentence, first, last = spans.every(states.lengths, LONGEST)
        scores = self.scores(states.words, states.sentence, sentence, first, last)
        probability, best = scores.softmax(1).max(1)
        order = probability.masked_fill(best == 0, 0.0).argsort(descending=True)[: int((best > 0).sum())]
        result = [[] for _ in states.lengths]
        taken = [[False] * length for length in states.lengths.tolist()]
        for row, start, end, kind in torch.stack([sentence, first, last + 1, best - 1], 1)[order].tolist():
            if not any(taken[row][start:end]):
                taken[row][start:end] = [True] * (end - start)
                result[row].append((start, end, kind))
        return result
