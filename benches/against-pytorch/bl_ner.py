"""BL-NER: SeqNER and SpanNER over one encoder; SpanNER finds the entities."""

from torch import nn

import seq_ner
import span_ner

ALPHA = 0.1


class Head(nn.Module):
    tensor_functions = []

    def __init__(self, width, types):
        super().__init__()
        self.seq = seq_ner.Head(width, types)
        self.span = span_ner.Head(width, types)

    @staticmethod
    def targets(sentences):
        return {**seq_ner.Head.targets(sentences), **span_ner.Head.targets(sentences)}

    def loss(self, states, batch):
        return ALPHA * self.seq.loss(states, batch) + (1 - ALPHA) * self.span.loss(states, batch)

    def entities(self, states):
        return self.span.entities(states)
