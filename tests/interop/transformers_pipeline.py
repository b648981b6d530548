"""Trains a small tagger, exports it, and compares its entities with those of a transformers pipeline.

    pip install torch transformers tokenizers safetensors
    python transformers_pipeline.py --nerzoo target/release/nerzoo

Every sentence has to have the same entities: the same characters and the same types. With `--model` a trained model is
used instead; it has to have `encoder.pooling = "first"` and `head.decoder = "softmax"`. Besides, every folder of
`tests/fixtures/taggers` whose tags can be exported is imported, exported and compared on logits.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")

import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

ROOT = Path(__file__).resolve().parents[2]

RECIPE = """
[data]
corpus = "quickstart"
limit = 400

[encoder]
pooling = "first"

[encoder.scratch]
vocabulary = 400
layers = 1
width = 48
heads = 4
feed_forward = 96

[head]
name = "seq_ner"

[train]
epochs = 8
batch = 8
learning_rate = 3e-3
tune = false
"""


def run(nerzoo, *arguments, text=None):
    done = subprocess.run([nerzoo, *map(str, arguments)], input=text, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"nerzoo {' '.join(map(str, arguments))} failed:\n{done.stderr}")
    return done.stdout


def texts(count):
    """Sentences of the corpus, their words separated by spaces."""
    lines = []
    for split in ["test", "dev", "train"]:
        with open(ROOT / "datasets/quickstart" / f"{split}.jsonl", encoding="utf-8") as file:
            lines += [" ".join(json.loads(line)["tokens"]) for line in file]
    return lines[:count]


def own_entities(nerzoo, model, lines):
    printed = run(nerzoo, "predict", "--model", model, "--whole", "-", text="\n".join(lines) + "\n")
    records = [json.loads(line) for line in printed.splitlines()]
    return [sorted((e["start"], e["end"], e["label"]) for e in record["entities"]) for record in records]


def their_entities(folder, lines):
    tagger = pipeline("token-classification", str(folder), aggregation_strategy="first")
    found = [tagger(line) for line in lines]
    return [sorted((e["start"], e["end"], e["entity_group"]) for e in entities) for entities in found]


def compare(nerzoo, model, exported, lines):
    run(nerzoo, "zoo", "export", model, "--to", "transformers", "--out", exported)
    ours, theirs = own_entities(nerzoo, model, lines), their_entities(exported, lines)
    assert len(ours) == len(theirs) == len(lines)
    different = [index for index in range(len(lines)) if ours[index] != theirs[index]]
    for index in different[:5]:
        print(f"{lines[index]}\n  nerzoo       {ours[index]}\n  transformers {theirs[index]}")
    entities = sum(map(len, ours))
    print(f"{len(lines)} sentences, {entities} entities, {len(different)} sentences differ")
    assert entities > len(lines) // 2, "too few entities to compare"
    assert not different


def compare_fixtures(nerzoo, folder):
    """Exported fixtures give the same logits as the folders they were made from."""
    for source in sorted((ROOT / "tests/fixtures/taggers").iterdir()):
        expected = source / "expected.json"
        if not expected.is_file() or source.name.endswith(("bioes", "bilou")):
            continue
        model, exported = folder / f"{source.name}-model", folder / f"{source.name}-exported"
        run(nerzoo, "zoo", "import", "--from", "transformers", source, "--out", model)
        run(nerzoo, "zoo", "export", model, "--to", "transformers", "--out", exported)
        one = AutoModelForTokenClassification.from_pretrained(source).float().eval()
        other = AutoModelForTokenClassification.from_pretrained(exported).float().eval()
        tokenizer = AutoTokenizer.from_pretrained(exported)
        names, largest = one.config.id2label, 0.0
        columns = [other.config.label2id[standard(names[number])] for number in range(len(names))]
        for sentence in json.loads(expected.read_text())["sentences"]:
            words = tokenizer(sentence["words"], is_split_into_words=True, return_tensors="pt")
            with torch.no_grad():
                difference = one(words["input_ids"]).logits - other(words["input_ids"]).logits[..., columns]
            largest = max(largest, difference.abs().max().item())
        print(f"{source.name}: logits differ by at most {largest:.1e}")
        assert largest < 1e-4


def standard(tag):
    return tag if tag == "O" or tag[:2] in ("B-", "I-") else f"I-{tag}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nerzoo", type=lambda path: str(Path(path).resolve()), default="target/release/nerzoo")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--sentences", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = options.model
        if model is None:
            model = folder / "run"
            (folder / "recipe.toml").write_text(RECIPE)
            run(options.nerzoo, "train", folder / "recipe.toml", "--plain", "--out", model)
        compare(options.nerzoo, model, folder / "exported", texts(options.sentences))
        compare_fixtures(options.nerzoo, folder)


if __name__ == "__main__":
    main()
