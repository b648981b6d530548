"""DiffusionNER (Shen et al., 2023), with the settings of `preset = "paper"`, 60 spans and repeated gold entities.

In training noise is added to the boundaries of the gold entities, and a network learns to find these entities again.
Prediction starts from noise and denoises it in five steps. The signal of a span are its boundaries as fractions of the
sentence, scaled to -1..1.
"""

import math

import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SPANS = 60
TIMESTEPS = 1000
STEPS = 5
ATTENTION_HEADS = 8
FEED_FORWARD = 1024
DROPOUT = 0.1
THRESHOLD = 2.5


def signal_left():
    """The share of the signal that is left at each timestep, by the cosine schedule."""
    time = torch.arange(TIMESTEPS + 1, dtype=torch.float64)
    height = torch.cos((time / TIMESTEPS + 0.008) / 1.008 * math.pi / 2) ** 2
    return (1 - (1 - height[1:] / height[:-1]).clamp(0, 0.999)).cumprod(0)


def sinusoid(positions, width):
    half = width // 2
    frequency = torch.exp(torch.arange(half) * (-math.log(10000) / (half - 1)))
    angle = positions.float().unsqueeze(1) * frequency
    return torch.cat([angle.sin(), angle.cos()], 1)


class Pointer(nn.Module):
    """Scores every word as one boundary of every span."""

    def __init__(self, width):
        super().__init__()
        self.words, self.spans, self.output = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, words, spans):
        both = self.words(words).unsqueeze(1) + self.spans(spans).unsqueeze(2)
        return self.output(both.relu()).squeeze(3)


class Head(nn.Module):
    rate = 5e-4
    tensor_functions = ["denoise"]

    def __init__(self, width, types):
        super().__init__()
        self.lstm = nn.LSTM(width, width // 2, 2, batch_first=True, bidirectional=True, dropout=DROPOUT)
        self.dropout = nn.Dropout(DROPOUT)
        # Self-attention of the spans, attention to the words and a feed-forward part with ReLU, each followed by a norm.
        self.layer = nn.TransformerDecoderLayer(width, ATTENTION_HEADS, FEED_FORWARD, DROPOUT, batch_first=True)
        self.left, self.right = Pointer(width), Pointer(width)
        self.classifier = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, types + 1))
        self.register_buffer("schedule", signal_left())

    def targets(self, sentences):
        """Noisy spans, their timesteps, and the gold entities repeated up to the number of spans."""
        entities = torch.zeros(len(sentences), SPANS, 3, dtype=torch.long)
        found = torch.zeros(len(sentences), dtype=torch.bool)
        # In a sentence without entities: the whole sentence, then random spans.
        signals = (torch.randn(len(sentences), SPANS, 2, dtype=torch.float64) / 6 + 0.5).sort(2).values
        signals[:, 0] = torch.tensor([0.0, 1.0])
        for row, (words, gold) in enumerate(sentences):
            gold = list(dict.fromkeys((start, end - 1, kind + 1) for start, end, kind in gold))[:SPANS]
            if gold:
                repeated = torch.tensor(gold).repeat(-(-SPANS // len(gold)), 1)[:SPANS]
                entities[row], found[row] = repeated, True
                signals[row] = repeated[:, :2] / len(words)
        time = torch.randint(TIMESTEPS, (len(sentences),))
        left = self.schedule[time].view(-1, 1, 1)
        noisy = left.sqrt() * (2 * signals - 1) + (1 - left).sqrt() * torch.randn_like(signals)
        return {"entities": entities, "found": found, "time": time, "signals": noisy}

    def encode(self, states):
        packed = pack_padded_sequence(states.words, states.lengths, batch_first=True, enforce_sorted=False)
        words, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return words

    def denoise(self, words, lengths, signals, time):
        """Scores of each word as the left and the right boundary, and of the types: [batch, spans, ...]."""
        fractions = (signals.clamp(-1, 1) + 1) / 2
        last = (lengths - 1).view(-1, 1, 1)
        bounds = torch.minimum((fractions * lengths.view(-1, 1, 1)).round().long(), last).sort(2).values
        places = torch.arange(words.size(1))
        inside = (places >= bounds[..., :1]) & (places <= bounds[..., 1:])
        mean = (inside / inside.sum(2, keepdim=True)).to(words.dtype) @ words
        padding = places >= lengths.unsqueeze(1)
        spans = self.layer(self.dropout(mean), words, memory_key_padding_mask=padding)
        spans = spans + sinusoid(time, words.size(2)).unsqueeze(1)
        padding = padding.unsqueeze(1)
        left = self.left(words, spans).masked_fill(padding, -1e9)
        right = self.right(words, spans).masked_fill(padding, -1e9)
        return left, right, self.classifier(spans)

    @torch.no_grad()
    def match(self, left, right, types, entities, found):
        """For each span the index of its gold entity, by the assignment of the highest sum of probabilities."""
        index = entities.transpose(1, 2).unsqueeze(2).expand(-1, -1, SPANS, -1)
        gain = left.sigmoid().gather(2, index[:, 0]) + right.sigmoid().gather(2, index[:, 1])
        gain = (gain + types.softmax(2).gather(2, index[:, 2])).numpy()
        matched = torch.zeros(len(found), SPANS, dtype=torch.long)
        for row in found.nonzero().flatten().tolist():
            # The rows come back in order: every span has an entity.
            matched[row] = torch.from_numpy(linear_sum_assignment(gain[row], maximize=True)[1])
        return matched

    def loss(self, states, batch):
        words = self.encode(states)
        left, right, types = self.denoise(words, states.lengths, batch["signals"], batch["time"])
        matched = self.match(left, right, types, batch["entities"], batch["found"])
        first, last, kind = batch["entities"].gather(1, matched.unsqueeze(2).expand(-1, -1, 3)).unbind(2)
        found, boundaries = batch["found"], 0.0
        for scores, word in [(left, first), (right, last)]:
            gold = torch.zeros_like(scores).scatter_(2, word.unsqueeze(2), 1.0)
            boundaries = boundaries + binary_cross_entropy_with_logits(scores[found], gold[found], reduction="sum")
        # The class of spans in sentences without entities is 0, none.
        classes = cross_entropy(types.flatten(0, 1), kind.flatten(), reduction="sum")
        return (boundaries + classes) / len(found)

    def entities(self, states):
        lengths = states.lengths
        words = self.encode(states)
        rows = len(lengths)
        signals = torch.randn(rows, SPANS, 2, dtype=torch.float64)
        times = [TIMESTEPS * step // STEPS - 1 for step in range(STEPS, 0, -1)]
        for time, after in zip(times, times[1:] + [None]):
            left, right, types = self.denoise(words, lengths, signals, torch.full((rows,), time))
            bounds = torch.stack([left.argmax(2), right.argmax(2)], 2)
            if after is not None:
                now, then = self.schedule[time], self.schedule[after]
                predicted = 2 * bounds / lengths.view(-1, 1, 1).double() - 1
                noise = (signals / now.sqrt() - predicted) / (1 / now - 1).sqrt()
                signals = then.sqrt() * predicted + (1 - then).sqrt() * noise
        classes = types.softmax(2)
        probability, kind = classes[..., 1:].max(2)
        total = left.amax(2).sigmoid() + right.amax(2).sigmoid() + probability
        ordered = (bounds[..., 0] <= bounds[..., 1]) & (probability > classes[..., 0])
        result = [{} for _ in range(rows)]
        # The most probable type of each span, if the sum of the three probabilities is high enough.
        row, slot = ordered.nonzero(as_tuple=True)
        order = probability[row, slot].argsort(descending=True, stable=True)
        row, slot = row[order], slot[order]
        columns = [row, bounds[row, slot, 0], bounds[row, slot, 1] + 1, kind[row, slot]]
        for (row, start, end, name), score in zip(torch.stack(columns, 1).tolist(), total[row, slot].tolist()):
            result[row].setdefault((start, end), (name, score))
        return [[(*span, name) for span, (name, score) in found.items() if score > THRESHOLD] for found in result]
