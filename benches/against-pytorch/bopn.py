"""BOPN (Tang et al., 2023), with the settings of `preset = "paper"` and offsets of up to two words.

A cell (type, first word i, last word j) has one of ten labels: 0 out of range, 5 the entity itself; the others name the
boundary that differs (start: s, end: e) and by how many words: s-2, e-2, s-1, e-1, 5, s+1, e+1, s+2, e+2.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, layer_norm, max_pool2d, relu
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

OFFSETS = 2
LABELS = 4 * OFFSETS + 2
CENTRE = 2 * OFFSETS + 1
LSTM_WIDTH = 256
REGION_WIDTH = 20
BIAFFINE_WIDTH = 150
DILATIONS = [1, 2, 3]


def label(kind, offset):
    """The number of a label; kind 0 is the start, 1 the end."""
    return 1 + 2 * (offset + OFFSETS) + kind - (1 if offset > 0 else 0)


def around():
    """The cells that are labelled around an entity: how far their start and end are, label and distance."""
    cells = []
    for start in range(-OFFSETS, OFFSETS + 1):
        for end in range(-OFFSETS, OFFSETS + 1):
            if start == end == 0:
                name = CENTRE
            elif start == 0 or 0 < abs(end) < abs(start):
                name = label(1, end)
            else:
                name = label(0, start)
            # Of equally near entities, one that shares a boundary is nearer.
            cells.append((start, end, name, 2 * (abs(start) + abs(end)) + int(start != 0 and end != 0)))
    return torch.tensor(cells)


# By label: kind (0 start, 1 end) and offset.
KIND, OFFSET = torch.zeros(LABELS, dtype=torch.long), torch.zeros(LABELS, dtype=torch.long)
for offset in [-2, -1, 1, 2]:
    for kind in [0, 1]:
        KIND[label(kind, offset)], OFFSET[label(kind, offset)] = kind, offset
AROUND = around()


class Biaffine(nn.Module):
    """score_o(x, y) = x'ᵀ U_o y', where x' and y' are outputs of a layer with an appended 1."""

    def __init__(self, left, right, hidden, outputs):
        super().__init__()
        self.dropout = nn.Dropout(0.2)
        self.left, self.right = nn.Linear(left, hidden), nn.Linear(right, hidden)
        self.form = nn.Parameter(torch.empty(outputs, hidden + 1, hidden + 1))
        for layer in [self.left, self.right]:
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        nn.init.xavier_normal_(self.form)

    def forward(self, left, right):
        """[batch, lefts, width] and [batch, words, words, width] to [batch, outputs, lefts, words, words]."""
        left = nn.functional.pad(relu(self.left(self.dropout(left))), (0, 1), value=1.0)
        right = nn.functional.pad(relu(self.right(self.dropout(right))), (0, 1), value=1.0)
        return torch.einsum("bmx,oxy,bijy->bomij", left, self.form, right)


class Head(nn.Module):
    pooling = "mean"
    rate = 1e-3
    # Without the convolutions: Conv3d would be compiled anew for every size of the grid.
    tensor_functions = ["scores"]

    def __init__(self, width, types):
        super().__init__()
        self.types = types
        # Encoded before the sentence, one vector per type.
        self.prompts = nn.Parameter(torch.randn(types, width))
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, LSTM_WIDTH // 2, batch_first=True, bidirectional=True)
        self.gamma, self.beta = nn.Linear(LSTM_WIDTH, LSTM_WIDTH), nn.Linear(LSTM_WIDTH, LSTM_WIDTH)
        for layer, constant in [(self.gamma, 1.0), (self.beta, 0.0)]:
            nn.init.zeros_(layer.weight)
            nn.init.constant_(layer.bias, constant)
        self.region = nn.Embedding(2, REGION_WIDTH)
        self.biaffine = Biaffine(LSTM_WIDTH, LSTM_WIDTH + REGION_WIDTH, BIAFFINE_WIDTH, LABELS)
        self.convolutions = nn.ModuleList(nn.Conv3d(LABELS, LABELS, 3, padding=d, dilation=d) for d in DILATIONS)
        self.predictor = nn.Linear(len(DILATIONS) * LABELS, LABELS)

    def targets(self, sentences):
        """The label of every cell, [batch, types, words, words]; -100 on padding.

        Of several entities near a cell, the nearest decides, of equally near ones the first: the smallest number made of
        distance, entity and label.
        """
        lengths = torch.tensor([len(words) for words, _ in sentences])
        rows, count = len(sentences), int(lengths.max())
        real = torch.arange(count) < lengths.unsqueeze(1)
        grid = (real.unsqueeze(2) & real.unsqueeze(1)).unsqueeze(1).expand(rows, self.types, count, count)
        grid = torch.where(grid, 0, -100)
        entities = [(row, k, s, e - 1) for row, (_, found) in enumerate(sentences) for s, e, k in sorted(set(found))]
        if not entities:
            return {"labels": grid}
        row, kind, first, last = torch.tensor(entities).t().unsqueeze(2)
        first, last = first + AROUND[:, 0], last + AROUND[:, 1]
        valid = (first >= 0) & (first <= last) & (last < lengths[row])
        cell = ((row * self.types + kind) * count + first) * count + last
        number = torch.arange(len(entities)).unsqueeze(1)
        key = (AROUND[:, 3] * len(entities) + number) * LABELS + AROUND[:, 2]
        none = int(key.max()) + 1
        nearest = torch.full((grid.numel(),), none).scatter_reduce(0, cell[valid], key[valid], "amin")
        labels = torch.where(nearest < none, nearest % LABELS, grid.flatten())
        return {"labels": labels.view_as(grid)}

    def encode(self, states):
        """Types and words after the BiLSTM."""
        both = self.dropout(torch.cat([states.prompts, states.words], 1))
        lengths = states.lengths + self.types
        packed = pack_padded_sequence(both, lengths, batch_first=True, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return output[:, : self.types], output[:, self.types :]

    def scores(self, types, words):
        """Scores before the convolutions: [batch, labels, types, words, words]."""
        rows, count, width = words.shape
        normal = layer_norm(words, (width,), eps=1e-12)
        spans = normal.unsqueeze(2) * self.gamma(words).unsqueeze(1) + self.beta(words).unsqueeze(1)
        places = torch.arange(count)
        region = self.region((places.unsqueeze(1) <= places).long()).expand(rows, -1, -1, -1)
        return self.biaffine(types, torch.cat([spans, region], 3))

    def logits(self, types, words, lengths):
        """Final scores of all labels: [batch, types, words, words, labels]."""
        rows, count, _ = words.shape
        real = (torch.arange(count) < lengths.unsqueeze(1)).float()
        mask = (real.unsqueeze(2) * real.unsqueeze(1)).view(rows, 1, 1, count, count)
        masked = self.scores(types, words) * mask
        convolved = torch.cat([gelu(layer(masked)) for layer in self.convolutions], 1)
        return self.predictor(convolved.movedim(1, -1))

    def loss(self, states, batch):
        logits = self.logits(*self.encode(states), states.lengths)
        return cross_entropy(logits.flatten(0, 3), batch["labels"].flatten(), ignore_index=-100)

    def entities(self, states):
        """Centres, and spans that offsets point to under the two rules of the paper."""
        logits = self.logits(*self.encode(states), states.lengths)
        lengths, count = states.lengths, logits.size(2)
        labels = logits.argmax(-1)
        places = torch.arange(count)
        real = (places.unsqueeze(1) <= places) & (places < lengths.view(-1, 1, 1))
        labels = labels * real.unsqueeze(1)
        centre = labels == CENTRE
        # Rule 1: no centre is near.
        near = max_pool2d(centre.float(), 2 * OFFSETS + 1, stride=1, padding=OFFSETS) > 0
        cells = ((labels > 0) & ~near).nonzero()
        row, kind, first, last = cells.unbind(1)
        name = labels[row, kind, first, last]
        side, offset = KIND[name], OFFSET[name]
        first, last = first - offset * (1 - side), last - offset * side
        valid = (first >= 0) & (first <= last) & (last < lengths[row])
        # Rule 2: a neighbouring cell points to the same span, unless there is no room for one.
        alone, agrees = torch.ones_like(valid), torch.zeros_like(valid)
        for step in [-1, 1]:
            other = offset + step + step * (offset + step == 0)
            s, e = first + other * (1 - side), last + other * side
            room = (other.abs() <= OFFSETS) & (s >= 0) & (s <= e) & (e < lengths[row])
            expected = 1 + 2 * (other + OFFSETS) + side - (other > 0).long()
            there = labels[row, kind, s.clamp(0, count - 1), e.clamp(0, count - 1)]
            alone &= ~room
            agrees |= room & (there == expected)
        chosen = valid & (alone | agrees)
        found = torch.stack([row, kind, first, last], 1)[chosen]
        cells = torch.cat([centre.nonzero(), cells[chosen]])
        found = torch.cat([centre.nonzero(), found])
        scores = logits[tuple(cells.t())].softmax(-1).amax(-1)
        best = {}
        for (row, kind, start, end), score in zip(found.tolist(), scores.tolist()):
            key = (row, start, end + 1, kind)
            best[key] = max(best.get(key, 0.0), score)
        result = [[] for _ in lengths]
        for row, start, end, kind in sorted(best):
            result[row].append((start, end, kind))
        return result
