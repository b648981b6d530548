"""SeqNER: a tagger with a linear layer and B, I and O."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def outermost(entities):
    """Flat entities: longer ones first, what overlaps a kept one goes."""
    kept = []
    for start, end, kind in sorted(entities, key=lambda e: (e[0] - e[1], e[0])):
        if all(end <= other[0] or start >= other[1] for other in kept):
            kept.append((start, end, kind))
    return kept


class Head(nn.Module):
    tensor_functions = ["scores"]

    def __init__(self, width, types):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.tagger = nn.Linear(width, 2 * types + 1)

    @staticmethod
    def targets(sentences):
        tags = torch.full((len(sentences), max(len(words) for words, _ in sentences)), -100)
        for row, (words, entities) in enumerate(sentences):
            tags[row, : len(words)] = 0
            for start, end, kind in outermost(entities):
                tags[row, start:end] = 2 + 2 * kind
                tags[row, start] = 1 + 2 * kind
        return {"tags": tags}

    def scores(self, words):
        return self.tagger(self.dropout(words))

    def loss(self, states, batch):
        return cross_entropy(self.scores(states.words).flatten(0, 1), batch["tags"].flatten(), ignore_index=-100)

    def entities(self, states):
        result = []
        for tags, length in zip(self.scores(states.words).argmax(-1).tolist(), states.lengths.tolist()):
            found, start = [], 0
            for place in range(1, length + 1):
                before = tags[place - 1]
                inside = place < length and tags[place] > 0 and tags[place] % 2 == 0
                if inside and before > 0 and (tags[place] - 1) // 2 == (before - 1) // 2:
                    continue
                if before > 0:
                    found.append((start, place, (before - 1) // 2))
                start = place
            result.append(found)
        return result
