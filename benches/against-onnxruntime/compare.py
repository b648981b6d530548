"""Times `nerzoo predict` beside ONNX Runtime with the same tagger on the same sentences, in turns.

    python3 benches/against-onnxruntime/compare.py --encoder FOLDER --corpus GENIA_FOLDER

Trains a tagger (MiniLM and one linear layer) on a few sentences, unless --model names a model folder of such a tagger.
Exports its weights with PyTorch to ONNX, in f32 and with dynamic int8 quantisation. Compares the entities that both programs
find, then times them and prints ratios with their spread: above 1 nerzoo is faster or smaller.

Makes its own Python environment under target/ with torch, onnx, onnxruntime and tokenizers, unless --python names one that
has them. See README.md for what is measured.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ["torch", "numpy", "onnx", "onnxruntime", "safetensors", "tokenizers"]
VARIANTS = ["f32", "int8"]
LONGEST = 512

RECIPE = """about = "A tagger for measurements of speed."

[data]
corpus = "genia"
limit = {limit}

[encoder]
pretrained = "{encoder}"
pooling = "first"

[head]
name = "seq_ner"

[train]
epochs = 1
batch = 16
learning_rate = 1e-4
tune = false
"""


# Part 1, with PyTorch: from a model folder to ONNX files.


def export(args):
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    folder = Path(args.work)
    ids = torch.ones(2, 8, dtype=torch.long)
    names, axes = ["input_ids", "attention_mask"], {0: "batch", 1: "pieces"}
    # The older of PyTorch's two exporters: ONNX Runtime takes a tenth less time for its graph in f32.
    torch.onnx.export(
        twin(Path(args.model)),
        (ids, ids),
        folder / "f32.onnx",
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: axes for name in [*names, "logits"]},
        opset_version=17,
        dynamo=False,
    )
    quantize_dynamic(folder / "f32.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)


def twin(folder):
    """The network of a model folder in PyTorch: BERT, and a linear layer over the state of every piece."""
    import torch
    from safetensors.torch import load_file
    from torch.nn.functional import embedding, gelu, layer_norm

    described = json.loads((folder / "config.json").read_text())
    config, encoder, head = described["encoder"]["transformer"], described["encoder"], described["head_config"]
    wanted = ("seq_ner", "softmax", "first", "last", "bert", "gelu")
    found = (described["head"], head["decoder"], encoder["pooling"], encoder["layers"])
    found += (config["family"], config["activation"])
    if found != wanted:
        sys.exit(f"{folder}: the model is {found}, but this comparison is for {wanted}")

    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, tensor in load_file(folder / "model.safetensors").items():
                self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(tensor.float()))

        def tensor(self, name):
            return getattr(self, name.replace(".", "_"))

        def linear(self, x, name):
            return x @ self.tensor(f"{name}.weight") + self.tensor(f"{name}.bias")

        def norm(self, x, name):
            gamma, beta = self.tensor(f"{name}.gamma"), self.tensor(f"{name}.beta")
            return layer_norm(x, (config["width"],), gamma, beta, config["norm_epsilon"])

        def forward(self, ids, mask):
            part = "encoder.transformer"
            x = embedding(ids, self.tensor(f"{part}.word_embeddings.weight"))
            x = x + self.tensor(f"{part}.position_embeddings.weight")[: ids.size(1)]
            x = x + self.tensor(f"{part}.token_type_embeddings.weight")[0]
            x = self.norm(x, f"{part}.embedding_norm")
            mask = (1.0 - mask[:, None, None, :].float()) * -10000.0
            for layer in range(config["layers"]):
                x = self.layer(x, mask, f"{part}.layers.{layer}")
            return self.linear(x, "head.emission")

        def layer(self, x, mask, part):
            heads, depth = config["heads"], config["width"] // config["heads"]
            projections = [self.linear(x, f"{part}.{name}") for name in ["query", "key", "value"]]
            query, key, value = (t.view(t.size(0), t.size(1), heads, depth).transpose(1, 2) for t in projections)
            weights = torch.softmax(query @ key.transpose(2, 3) / depth**0.5 + mask, -1)
            context = (weights @ value).transpose(1, 2).reshape(x.shape)
            x = self.norm(x + self.linear(context, f"{part}.attention_output"), f"{part}.attention_norm")
            hidden = gelu(self.linear(x, f"{part}.feed_forward_inner"))
            return self.norm(x + self.linear(hidden, f"{part}.feed_forward_outer"), f"{part}.feed_forward_norm")

    return Tagger().eval()


# Part 2, without PyTorch: ONNX Runtime and Hugging Face's tokenizers.


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(args):
    import numpy
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if args.spin else "0")
    session = onnxruntime.InferenceSession(args.onnx, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(Path(args.model) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    sentences = [json.loads(line)["tokens"] for line in open(args.sentences, encoding="utf-8")]

    def tag(sentences):
        encoded = tokenizer.encode_batch(sentences, is_pretokenized=True)
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index]))
        tags = [None] * len(encoded)
        for first in range(0, len(order), args.batch):
            part = order[first : first + args.batch]
            ids = numpy.zeros((len(part), max(len(encoded[index]) for index in part)), numpy.int64)
            mask = numpy.zeros_like(ids)
            for row, index in enumerate(part):
                ids[row, : len(encoded[index])] = encoded[index].ids
                mask[row, : len(encoded[index])] = 1
            logits = session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
            best = logits.argmax(-1)
            for row, index in enumerate(part):
                tags[index] = best[row]
        return encoded, tags

    tag(sentences[: args.batch])
    wall, used = time.perf_counter(), cpu()
    encoded, tags = tag(sentences)
    wall, used = time.perf_counter() - wall, cpu() - used
    if args.tags:
        with open(args.tags, "w", encoding="utf-8") as file:
            for encoding, best in zip(encoded, tags):
                words = {}
                for piece, word in enumerate(encoding.word_ids):
                    if word is not None:
                        words.setdefault(word, int(best[piece]))
                file.write(json.dumps(list(words.values())) + "\n")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"wall": wall, "cpu": used, "memory": memory}))


# Part 3, with any Python: the turns.


def environment(given):
    if given:
        return given
    folder = ROOT / "target" / "against-onnxruntime"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def measured(command, threads):
    """Wall and CPU seconds and peak memory of a process, and what it printed."""
    settings = dict(os.environ)
    settings.update(RAYON_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
    settings.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="true")
    wall = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings, cwd=ROOT
    )
    # Little is printed, so that the pipes do not fill up before the process ends.
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - wall
    printed, errors = process.stdout.read().decode(), process.stderr.read().decode()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{errors}")
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss * 1024}, printed


def time_nerzoo(args, model, sentences, threads):
    """Without loading the model: the time for one sentence is taken off."""
    output = Path(args.work) / "predicted.jsonl"
    command = [args.nerzoo, "predict", "--device", "cpu", "--model", model, "--out", output, "--force"]
    start, _ = measured([*command, Path(args.work) / "one.jsonl"], threads)
    full, _ = measured([*command, sentences], threads)
    return {
        "wall": full["wall"] - start["wall"],
        "cpu": full["cpu"] - start["cpu"],
        "memory": full["memory"],
        "start": start["wall"],
    }


def time_onnxruntime(args, variant, sentences, threads, tags=None):
    command = [args.python, HERE / "compare.py", "--part", "run", "--onnx", Path(args.work) / f"{variant}.onnx"]
    command += ["--model", args.model, "--sentences", sentences, "--threads", threads, "--batch", args.batch]
    command += ["--tags", tags] if tags else []
    command += ["--spin"] if args.spin else []
    _, printed = measured(command, threads)
    return json.loads(printed[printed.index("{") :])


def agreement(args, sentences):
    """The share of sentences for which nerzoo in f32 finds the same entities as in int8 and as each exported network."""
    labels = json.loads((Path(args.model) / "config.json").read_text())["labels"]
    output = Path(args.work) / "tags.jsonl"

    def found(model):
        command = [args.nerzoo, "predict", "--device", "cpu", "--model", model, "--format", "tokens_jsonl"]
        measured([*command, "--out", output, "--force", sentences], args.threads[-1])
        lines = [json.loads(line)["entities"] for line in open(output, encoding="utf-8")]
        return [{(e["start"], e["end"], e["type"]) for e in entities} for entities in lines]

    own, other = found(args.model), found(args.int8_model)
    same = sum(a == b for a, b in zip(own, other))
    print(f"nerzoo int8: the same entities in {100 * same / len(own):.2f} % of {len(own)} sentences")
    for variant in VARIANTS:
        time_onnxruntime(args, variant, sentences, args.threads[-1], tags=output)
        other = [spans(json.loads(line), labels) for line in open(output, encoding="utf-8")]
        same = sum(a == b for a, b in zip(own, other))
        print(f"ONNX Runtime {variant}: the same entities in {100 * same / len(own):.2f} % of {len(own)} sentences")


def spans(tags, labels):
    """Entities of tags O, B-0, I-0, B-1, ...; a stray I starts one."""
    found, start = set(), 0
    for place in range(1, len(tags) + 1):
        before = tags[place - 1]
        after = tags[place] if place < len(tags) else 0
        if after > 0 and after % 2 == 0 and before > 0 and (after - 1) // 2 == (before - 1) // 2:
            continue
        if before > 0:
            found.add((start, place, labels[(before - 1) // 2]))
        start = place
    return found


def ratios(ours, theirs, key):
    values = sorted(other[key] / own[key] for own, other in zip(ours, theirs))
    return f"{statistics.median(values):.2f} ({values[0]:.2f}-{values[-1]:.2f})"


def turns(args, sentences, count):
    models = {"nerzoo f32": args.model, "nerzoo int8": args.int8_model}
    for threads in args.threads:
        results = {name: [] for name in [*models, *VARIANTS]}
        for _ in range(args.rounds):
            for name, model in models.items():
                results[name].append(time_nerzoo(args, model, sentences, threads))
            for variant in VARIANTS:
                results[variant].append(time_onnxruntime(args, variant, sentences, threads))
        print(f"\n{threads} thread{'s' * (threads > 1)}, {count} sentences, batch {args.batch}, {args.rounds} rounds")
        print(f"{'':28} {'sentences/s':>18} {'per CPU second':>18} {'peak MB':>9}")
        for name, runs in results.items():
            name = name if name in models else f"ONNX Runtime {name}"
            cells = []
            for key in ["wall", "cpu"]:
                rates = sorted(count / result[key] for result in runs)
                cells.append(f"{statistics.median(rates):.1f} ({rates[0]:.1f}-{rates[-1]:.1f})")
            memory = statistics.median(result["memory"] for result in runs) / 1e6
            print(f"{name:28} {cells[0]:>18} {cells[1]:>18} {memory:>9.0f}")
        print("ratios")
        for own in models:
            for variant in VARIANTS:
                cells = [ratios(results[own], results[variant], key) for key in ["wall", "cpu", "memory"]]
                print(f"{own + ' / ' + variant:28} {cells[0]:>18} {cells[1]:>18} {cells[2]:>18}", flush=True)
        for name in models:
            start = statistics.median(result["start"] for result in results[name])
            print(f"start of {name}, with one sentence: {start:.2f} s of wall time")


def prepare(args):
    """The model folder, the sentences and the exported networks; whatever is there is used again."""
    work = Path(args.work)
    work.mkdir(parents=True, exist_ok=True)
    if not args.nerzoo:
        subprocess.run(["cargo", "build", "--release", "--quiet"], check=True, cwd=ROOT)
        args.nerzoo = ROOT / "target" / "release" / "nerzoo"
    corpus = Path(args.corpus).resolve()
    words = work / "words.jsonl"
    convert = [args.nerzoo, "data", "convert", corpus / "test.jsonl", words, "--force"]
    subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
    lines = [line for line in words.read_text(encoding="utf-8").splitlines() if json.loads(line)["tokens"]]
    count = args.limit or len(lines)
    sentences = work / "sentences.jsonl"
    with open(sentences, "w", encoding="utf-8") as file:
        file.writelines(lines[index % len(lines)] + "\n" for index in range(count))
    (work / "one.jsonl").write_text(lines[0] + "\n", encoding="utf-8")
    if not args.model:
        args.model = work / "model"
        if not (args.model / "model.safetensors").exists():
            recipe = work / "recipe.toml"
            recipe.write_text(RECIPE.format(limit=args.train, encoder=Path(args.encoder).resolve()))
            train = [args.nerzoo, "train", recipe, "--plain", "--out", args.model, "--data", corpus.parent]
            subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
    if not args.int8_model:
        args.int8_model = work / "model-int8"
        if not (args.int8_model / "model.safetensors").exists():
            quantize = [args.nerzoo, "zoo", "quantize", args.model, "--out", args.int8_model, "--no-check"]
            subprocess.run(quantize, check=True, stdout=subprocess.DEVNULL)
    command = [args.python, HERE / "compare.py", "--part", "export", "--model", args.model, "--work", work]
    if not all((work / f"{variant}.onnx").exists() for variant in VARIANTS):
        measured(command, args.threads[-1])
    return sentences, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--encoder", help="the folder of all-MiniLM-L6-v2; not needed with --model")
    parser.add_argument("--corpus", help="the folder of GENIA")
    parser.add_argument("--model", help="a model folder of a SeqNER with softmax, first pieces and a BERT encoder")
    parser.add_argument("--int8-model", help="the same model, quantised by nerzoo; made if it is not given")
    parser.add_argument("--nerzoo", help="the program; built if it is not given")
    parser.add_argument("--python", help="a Python with " + ", ".join(PACKAGES))
    parser.add_argument("--work", default=str(ROOT / "target" / "against-onnxruntime-files"))
    parser.add_argument("--train", type=int, default=400, help="sentences to train on (400)")
    parser.add_argument("--limit", type=int, help="sentences to tag; those of the test set again and again if need be")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--batch", type=int, default=16, help="sentences in a batch of ONNX Runtime (16)")
    parser.add_argument("--spin", action="store_true", help="let threads of ONNX Runtime wait actively, its default")
    parser.add_argument("--part", choices=["all", "export", "run"], default="all", help=argparse.SUPPRESS)
    parser.add_argument("--onnx", help=argparse.SUPPRESS)
    parser.add_argument("--sentences", help=argparse.SUPPRESS)
    parser.add_argument("--tags", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part == "export":
        return export(args)
    if args.part == "run":
        args.threads = int(args.threads)
        return run(args)
    if not args.corpus or not (args.model or args.encoder):
        parser.error("--corpus and one of --encoder and --model are needed")
    args.threads = [int(threads) for threads in args.threads.split(",")]
    args.python = environment(args.python)
    sentences, count = prepare(args)
    agreement(args, sentences)
    turns(args, sentences, count)


if __name__ == "__main__":
    main()
