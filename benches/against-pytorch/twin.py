"""SeqNER, SpanNER and BL-NER in plain PyTorch: what nerzoo is timed and scored against.

Prints one JSON object. `compare.py` calls it; by itself:

    python twin.py speed --what train --model seq --encoder FOLDER --sentences train.jsonl
    python twin.py score --model bl --seed 2 --epochs 3 --encoder FOLDER --sentences train.jsonl --test test.jsonl
"""

import argparse
import json
import random
import resource
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import AutoModel, AutoTokenizer

LONGEST = 10
NEGATIVES = 100
WARM_UP = 3


class Model(nn.Module):
    """An encoder with a tagger, a span classifier, or both."""

    def __init__(self, encoder, types, kind):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(encoder)
        # Some families have a layer for the first piece, which is not used here.
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        width = self.encoder.config.hidden_size
        self.dropout = nn.Dropout(0.1)
        self.kind = kind
        if kind in ("seq", "bl"):
            self.tagger = nn.Linear(width, 2 * types + 1)
        if kind in ("span", "bl"):
            self.lengths = nn.Embedding(LONGEST + 1, 25)
            self.classifier = nn.Linear(4 * width + 25, types + 1)

    def words(self, batch):
        """The maximum over each word's pieces, [batch, words, width], and the sentence's vector."""
        states = self.encoder(input_ids=batch["ids"], attention_mask=batch["mask"]).last_hidden_state
        rows, _, width = states.shape
        pooled = states.new_full((rows, batch["count"] + 1, width), float("-inf"))
        place = batch["word"].unsqueeze(-1).expand(-1, -1, width)
        pooled = pooled.scatter_reduce(1, place, states, "amax")[:, 1:]
        return pooled.masked_fill(pooled == float("-inf"), 0.0), states[:, 0]

    def spans(self, words, sentence, spans):
        """Scores of spans (sentence, first word, last word)."""
        index, first, last = spans.unbind(1)
        longest = int((last - first).max()) + 1
        steps = torch.minimum(first.unsqueeze(1) + torch.arange(longest), last.unsqueeze(1))
        pooled = words[index.unsqueeze(1), steps].amax(1)
        parts = [words[index, first], words[index, last], pooled, sentence[index]]
        parts.append(self.lengths(last - first + 1))
        return self.classifier(self.dropout(torch.cat(parts, 1)))

    def loss(self, batch):
        words, sentence = self.words(batch)
        tagged = spanned = 0.0
        if self.kind in ("seq", "bl"):
            scores = self.tagger(self.dropout(words)).flatten(0, 1)
            tagged = cross_entropy(scores, batch["tags"].flatten(), ignore_index=-100)
        if self.kind in ("span", "bl"):
            spanned = cross_entropy(self.spans(words, sentence, batch["spans"]), batch["classes"])
        if self.kind == "bl":
            return 0.1 * tagged + 0.9 * spanned
        return tagged + spanned

    def tags(self, batch):
        words, _ = self.words(batch)
        return self.tagger(words).argmax(-1)

    def classes(self, batch):
        words, sentence = self.words(batch)
        return self.spans(words, sentence, batch["spans"]).softmax(1)


def read(path, limit=None):
    sentences = []
    for line in open(path, encoding="utf-8"):
        item = json.loads(line)
        entities = [(e["start"], e["end"], e["type"]) for e in item["entities"]]
        if item["tokens"]:
            sentences.append((item["tokens"], entities))
    return sentences[:limit]


def outermost(entities):
    """Flat entities: longer ones first, what overlaps a kept one goes."""
    kept = []
    for start, end, kind in sorted(entities, key=lambda e: (e[0] - e[1], e[0])):
        if all(end <= other[0] or start >= other[1] for other in kept):
            kept.append((start, end, kind))
    return kept


def collate(sentences, tokenizer, types, all_spans=False):
    encoded = tokenizer([words for words, _ in sentences], is_split_into_words=True, truncation=True)
    rows = len(sentences)
    pieces = max(len(ids) for ids in encoded["input_ids"])
    count = max(len(words) for words, _ in sentences)
    batch = {
        "ids": torch.zeros(rows, pieces, dtype=torch.long),
        "mask": torch.zeros(rows, pieces, dtype=torch.long),
        "word": torch.zeros(rows, pieces, dtype=torch.long),
        "tags": torch.full((rows, count), -100),
        "count": count,
    }
    spans, classes = [], []
    for row, (words, entities) in enumerate(sentences):
        ids = encoded["input_ids"][row]
        batch["ids"][row, : len(ids)] = torch.tensor(ids)
        batch["mask"][row, : len(ids)] = 1
        places = [0 if word is None else word + 1 for word in encoded.word_ids(row)]
        batch["word"][row, : len(ids)] = torch.tensor(places)
        batch["tags"][row, : len(words)] = 0
        for start, end, kind in outermost(entities):
            batch["tags"][row, start:end] = 2 + 2 * types[kind]
            batch["tags"][row, start] = 1 + 2 * types[kind]
        gold = {(s, e - 1): types[kind] + 1 for s, e, kind in entities if e - s <= LONGEST}
        every = [(s, e) for s in range(len(words)) for e in range(s, min(s + LONGEST, len(words)))]
        if not all_spans:
            others = [span for span in every if span not in gold]
            every = list(gold) + random.sample(others, min(NEGATIVES, len(others)))
        spans += [(row, s, e) for s, e in every]
        classes += [gold.get(span, 0) for span in every]
    batch["spans"], batch["classes"] = torch.tensor(spans), torch.tensor(classes)
    return batch


def optimizer(model, rate, fused):
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=fused)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = model.loss(batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def speed(args, model, tokenizer, sentences, types):
    total = (WARM_UP + args.steps) * args.batch
    chosen = [sentences[i % len(sentences)] for i in range(total)]
    if args.what == "train":
        random.shuffle(chosen)
        model.train()
        adamw = optimizer(model, 5e-5, args.fused)
    else:
        chosen[WARM_UP * args.batch :] = sorted(
            chosen[WARM_UP * args.batch :], key=lambda sentence: len(sentence[0])
        )
        model.eval()
    for step in range(WARM_UP + args.steps):
        if step == WARM_UP:
            wall, used = time.time(), cpu()
        part = chosen[step * args.batch : (step + 1) * args.batch]
        if args.what == "train":
            train_step(model, adamw, collate(part, tokenizer, types))
        else:
            batch = collate(part, tokenizer, types, all_spans=args.model != "seq")
            with torch.no_grad():
                (model.tags if args.model == "seq" else model.classes)(batch)
    wall, used = time.time() - wall, cpu() - used
    done = args.steps * args.batch
    return {
        "sentences_per_second": done / wall,
        "sentences_per_cpu_second": done / used,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def found(model, batch, rows, names, kind):
    """Flat entities of each sentence."""
    result = [[] for _ in range(rows)]
    if kind == "seq":
        for row, tags in enumerate(model.tags(batch).tolist()):
            real = [t for t, gold in zip(tags, batch["tags"][row].tolist()) if gold != -100]
            start = 0
            for place in range(1, len(real) + 1):
                inside = place < len(real) and real[place] % 2 == 0 and real[place] > 0
                before = real[place - 1]
                if inside and before > 0 and (real[place] - 1) // 2 == (before - 1) // 2:
                    continue
                if before > 0:
                    result[row].append((start, place, names[(before - 1) // 2]))
                start = place
        return result
    probability, best = model.classes(batch).max(1)
    order = sorted((i for i in range(len(best)) if best[i] > 0), key=lambda i: -probability[i])
    spans = batch["spans"].tolist()
    for i in order:
        row, start, last = spans[i]
        if all(last + 1 <= other[0] or start >= other[1] for other in result[row]):
            result[row].append((start, last + 1, names[best[i] - 1]))
    return result


def evaluate(model, tokenizer, sentences, types, kind):
    names = {number: name for name, number in types.items()}
    right = predicted = gold = 0
    model.eval()
    with torch.no_grad():
        for first in range(0, len(sentences), 32):
            part = sentences[first : first + 32]
            batch = collate(part, tokenizer, types, all_spans=True)
            for (_, entities), answer in zip(part, found(model, batch, len(part), names, kind)):
                right += len(set(entities) & set(answer))
                predicted += len(set(answer))
                gold += len(set(entities))
    return {
        "precision": 100 * right / max(predicted, 1),
        "recall": 100 * right / max(gold, 1),
        "f1": 200 * right / max(predicted + gold, 1),
    }


def score(args, model, tokenizer, sentences, types):
    steps = args.epochs * (len(sentences) // args.batch)
    adamw = optimizer(model, 5e-5, True)
    rates = lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(adamw, rates)
    result = {}
    for epoch in range(args.epochs):
        random.shuffle(sentences)
        model.train()
        for first in range(0, len(sentences) - args.batch + 1, args.batch):
            train_step(model, adamw, collate(sentences[first : first + args.batch], tokenizer, types))
            schedule.step()
    test = read(args.test)
    for head in ["seq", "span"] if args.model == "bl" else [args.model]:
        result[head] = evaluate(model, tokenizer, test, types, head)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("do", choices=["speed", "score"])
    parser.add_argument("--what", choices=["train", "predict"], default="train")
    parser.add_argument("--model", choices=["seq", "span", "bl"], default="seq")
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--sentences", required=True)
    parser.add_argument("--test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fused", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    sentences = read(args.sentences, args.limit)
    types = {}
    for _, entities in sentences:
        for entity in entities:
            types.setdefault(entity[2], len(types))
    tokenizer = AutoTokenizer.from_pretrained(args.encoder)
    model = Model(args.encoder, len(types), args.model)
    run = speed if args.do == "speed" else score
    print(json.dumps(run(args, model, tokenizer, sentences, types)))


if __name__ == "__main__":
    main()
