"""Heads of nerzoo in plain PyTorch: what nerzoo is timed and scored against.

Each head has its own file; here is what they share: reading, batches, encoder, optimiser, timing. Prints one JSON object.
`compare.py` calls it; by itself:

    python twin.py speed --what train --model seq --encoder FOLDER --sentences train.jsonl
    python twin.py score --model bl --seed 2 --epochs 3 --encoder FOLDER --sentences train.jsonl --test test.jsonl
    python twin.py losses --model bopn --encoder FOLDER --sentences train.jsonl --limit 100 --epochs 4
"""

import argparse
import importlib
import json
import random
import resource
import time
from typing import NamedTuple

import numpy
import torch
from torch import nn
from transformers import AutoModel, AutoTokenizer

# By the names of --model: the files of the heads, which are also the names in nerzoo's recipes.
MODELS = {
    "seq": "seq_ner",
    "span": "span_ner",
    "bl": "bl_ner",
    "bopn": "bopn",
    "locate_label": "locate_label",
    "diffusion_ner": "diffusion_ner",
}
WARM_UP = 3
RATE = 5e-5


class States(NamedTuple):
    """What a head reads."""

    words: torch.Tensor  # [batch, words, width]; 0 on padding
    sentence: torch.Tensor  # [batch, width]: the first piece
    prompts: torch.Tensor  # [batch, prompts, width]
    lengths: torch.Tensor  # words of each sentence


class Model(nn.Module):
    """An encoder and a head.

    A head has `targets(sentences)`, tensors for training; `loss(states, batch)`; and `entities(states)`, a list of
    (start, end, type) for each sentence. `tensor_functions` are the methods that --compile compiles.
    """

    def __init__(self, encoder, types, head):
        super().__init__()
        self.encoder = AutoModel.from_pretrained(encoder)
        # Some families have a layer for the first piece, which is not used here.
        if getattr(self.encoder, "pooler", None) is not None:
            self.encoder.pooler = None
        width = self.encoder.config.hidden_size
        self.head = importlib.import_module(MODELS[head]).Head(width, types)
        self.pooling = getattr(self.head, "pooling", "max")

    @property
    def prompts(self):
        """Vectors that are encoded before the sentence, if the head has such."""
        return getattr(self.head, "prompts", None)

    def states(self, batch):
        """States of the words: the maximum or the mean of the pieces of each."""
        ids, mask = batch["ids"], batch["mask"]
        rows, count = len(ids), 0
        if self.prompts is None:
            hidden = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        else:
            count = len(self.prompts)
            embedded = self.encoder.get_input_embeddings()(ids)
            embedded = torch.cat([self.prompts.expand(rows, -1, -1), embedded], 1)
            mask = torch.cat([mask.new_ones(rows, count), mask], 1)
            hidden = self.encoder(inputs_embeds=embedded, attention_mask=mask).last_hidden_state
        prompts, pieces = hidden[:, :count], hidden[:, count:]
        width = pieces.size(2)
        place = batch["word"].unsqueeze(-1).expand(-1, -1, width)
        # Place 0 is for special pieces and padding.
        words = pieces.new_zeros(rows, int(batch["lengths"].max()) + 1, width)
        reduce = {"max": "amax", "mean": "mean"}[self.pooling]
        words = words.scatter_reduce(1, place, pieces, reduce, include_self=False)[:, 1:]
        return States(words, pieces[:, 0], prompts, batch["lengths"])

    def loss(self, batch):
        return self.head.loss(self.states(batch), batch)

    def entities(self, batch):
        return self.head.entities(self.states(batch))

    def compile_parts(self):
        """torch.compile of the encoder and of the head's functions of tensors, for any length of sentence."""
        self.encoder.compile(dynamic=True)
        for part in self.head.modules():
            for name in getattr(part, "tensor_functions", []):
                setattr(part, name, torch.compile(getattr(part, name), dynamic=True))


def read(path, limit=None):
    sentences = []
    for line in open(path, encoding="utf-8"):
        item = json.loads(line)
        entities = [(e["start"], e["end"], e["type"]) for e in item["entities"]]
        if item["tokens"]:
            sentences.append((item["tokens"], entities))
    return sentences[:limit]


def numbered(sentences, types):
    """The same sentences with the numbers of types, which are added as they occur if `types` is a new dictionary."""
    number = lambda kind: types.setdefault(kind, len(types))
    return [(words, [(start, end, number(kind)) for start, end, kind in found]) for words, found in sentences]


def collate(sentences, tokenizer, model, training):
    longest = min(tokenizer.model_max_length, 512) - (0 if model.prompts is None else len(model.prompts))
    words = [words for words, _ in sentences]
    encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=longest, padding=True)
    places = [[0 if word is None else word + 1 for word in encoded.word_ids(row)] for row in range(len(words))]
    batch = {
        "ids": torch.tensor(encoded["input_ids"]),
        "mask": torch.tensor(encoded["attention_mask"]),
        "word": torch.tensor(places),
        "lengths": torch.tensor([len(one) for one in words]),
    }
    return {**batch, **model.head.targets(sentences)} if training else batch


def shuffled(sentences, size, bucket):
    """Batches of random sentences of similar length: pools of `bucket` batches are sorted by length."""
    order = random.sample(sentences, len(sentences))
    pools = [order[i : i + size * bucket] for i in range(0, len(order), size * bucket)]
    pools = [sorted(pool, key=lambda sentence: len(sentence[0])) for pool in pools]
    batches = [pool[i : i + size] for pool in pools for i in range(0, len(pool), size)]
    random.shuffle(batches)
    return batches


def optimizer(model, rate, fused):
    head = {id(parameter) for parameter in model.head.parameters()}
    groups = [
        {"params": [p for p in model.parameters() if id(p) not in head], "lr": rate},
        {"params": list(model.head.parameters()), "lr": getattr(model.head, "rate", rate)},
    ]
    return torch.optim.AdamW(groups, weight_decay=0.01, fused=fused)


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


def speed(args, model, tokenizer, sentences):
    """Training: the batches of an epoch over the sentences needed. Prediction: sentences sorted by length."""
    warm_up = args.warm_up * args.batch
    chosen = [sentences[i % len(sentences)] for i in range(args.steps * args.batch)]
    if args.what == "train":
        chosen += [sentences[i % len(sentences)] for i in range(len(chosen), len(chosen) + warm_up)]
        batches = shuffled(chosen, args.batch, args.bucket)
        adamw = optimizer(model, RATE, args.fused)
        model.train()
    else:
        first = [sentences[i % len(sentences)] for i in range(warm_up)]
        chosen = first + sorted(chosen, key=lambda sentence: len(sentence[0]))
        batches = [chosen[i : i + args.batch] for i in range(0, len(chosen), args.batch)]
        model.eval()
    found = 0
    for step, part in enumerate(batches):
        if step == args.warm_up:
            wall, used = time.time(), cpu()
        batch = collate(part, tokenizer, model, args.what == "train")
        if args.what == "train":
            train_step(model, adamw, batch)
        else:
            with torch.no_grad():
                found += sum(map(len, model.entities(batch)))
    wall, used = time.time() - wall, cpu() - used
    done = args.steps * args.batch
    return {
        "sentences": done,
        "entities": found,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "sentences_per_second": done / wall,
        "sentences_per_cpu_second": done / used,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def evaluate(model, head, tokenizer, sentences):
    right = predicted = gold = 0
    model.eval()
    with torch.no_grad():
        for first in range(0, len(sentences), 32):
            part = sentences[first : first + 32]
            found = head.entities(model.states(collate(part, tokenizer, model, False)))
            for (_, entities), answer in zip(part, found):
                right += len(set(entities) & set(answer))
                predicted += len(set(answer))
                gold += len(set(entities))
    return {
        "precision": 100 * right / max(predicted, 1),
        "recall": 100 * right / max(gold, 1),
        "f1": 200 * right / max(predicted + gold, 1),
    }


def train(args, model, tokenizer, sentences):
    """Trains with warm-up and linear decay and gives the mean loss of each epoch."""
    steps = args.epochs * -(-len(sentences) // args.batch)
    adamw = optimizer(model, RATE, True)
    rates = lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(adamw, rates)
    losses = []
    for _ in range(args.epochs):
        model.train()
        of_epoch = []
        for part in shuffled(sentences, args.batch, args.bucket):
            loss = train_step(model, adamw, collate(part, tokenizer, model, True))
            schedule.step()
            of_epoch.append(loss.item())
        losses.append(sum(of_epoch) / len(of_epoch))
    return losses


def losses(args, model, tokenizer, sentences):
    """Whether the loss decreases: its mean in each epoch, and the score on the training sentences."""
    by_epoch = train(args, model, tokenizer, sentences)
    return {"losses": by_epoch, "train": evaluate(model, model.head, tokenizer, sentences)}


def score(args, model, tokenizer, sentences):
    train(args, model, tokenizer, sentences)
    test = numbered(read(args.test), args.types)
    heads = {"seq": model.head.seq, "span": model.head.span} if args.model == "bl" else {args.model: model.head}
    return {name: evaluate(model, head, tokenizer, test) for name, head in heads.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("do", choices=["speed", "score", "losses"])
    parser.add_argument("--what", choices=["train", "predict"], default="train")
    parser.add_argument("--model", choices=list(MODELS), default="seq")
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--sentences", required=True)
    parser.add_argument("--test")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=WARM_UP)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--bucket", type=int, default=8, help="batches that are sorted by length together in training")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    numpy.random.seed(args.seed)
    args.types = {}
    sentences = numbered(read(args.sentences, args.limit), args.types)
    tokenizer = AutoTokenizer.from_pretrained(args.encoder)
    model = Model(args.encoder, len(args.types), args.model)
    if args.compile:
        model.compile_parts()
    run = {"speed": speed, "score": score, "losses": losses}[args.do]
    print(json.dumps(run(args, model, tokenizer, sentences)))


if __name__ == "__main__":
    main()
