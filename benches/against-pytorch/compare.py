"""Times nerzoo beside PyTorch on the same sentences, in turns, and prints ratios with their spread.

    python3 benches/against-pytorch/compare.py --encoder FOLDER --corpus GENIA_FOLDER
    python3 benches/against-pytorch/compare.py --family deberta-v2,mpnet --models seq --corpus GENIA_FOLDER

The second form makes encoders of the base size of these families, with random weights, in target/.
Makes its own Python environment under target/ with torch, transformers and scipy, unless --python names one that has them.
Both sides run with two threads; above 1 nerzoo is faster. See README.md for what is measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ["torch", "transformers", "scipy"]
# By the names of --models: the heads as in the names of recipes.
HEADS = {
    "seq": "seq_ner",
    "span": "span_ner",
    "bl": "bl_ner",
    "bopn": "bopn",
    "locate_label": "locate_label",
    "diffusion_ner": "diffusion_ner",
}
# nerzoo's own warm-up before it measures; the twin has the same.
WARM_UP = 3
# Ways to run the twin, by what is measured, with its arguments.
KINDS = {
    "train": {"AdamW": [], "fused AdamW": ["--fused"]},
    "predict": {"no_grad": []},
}
# Compiled code is made for one size first and then for any size.
COMPILED = {
    "train": {"compiled, fused AdamW": ["--fused", "--compile", "--warm-up", "6"]},
    "predict": {"compiled, no_grad": ["--compile", "--warm-up", "6"]},
}


def environment(given):
    if given:
        return given
    folder = ROOT / "target" / "against-pytorch"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    found = subprocess.run([python, "-c", f"import {', '.join(PACKAGES)}"], capture_output=True)
    if found.returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def encoders(args, python, words):
    """Folders of the encoders to compare, by name."""
    if args.encoder:
        return {"": args.encoder}
    folders = {}
    for family in args.family.split(","):
        size = [] if args.layers is None else ["--layers", str(args.layers)]
        folder = ROOT / "target" / "against-pytorch-encoders" / "-".join([family] + size[1:])
        if not (folder / "model.safetensors").exists():
            command = [python, HERE / "random_encoder.py", family, folder, "--sentences", words]
            subprocess.run(command + size, check=True)
        folders[family] = str(folder)
    return folders


def run(command, threads):
    """The measurement of a program, and what it wrote to stderr if it failed."""
    settings = dict(os.environ)
    settings.update(RAYON_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
    settings.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=ROOT)
    if done.returncode:
        return None, f"{' '.join(map(str, command))}\n{done.stderr}"
    return json.loads(done.stdout[done.stdout.index("{") :]), ""


def names(text):
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in HEADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: known are {', '.join(HEADS)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    encoder = parser.add_mutually_exclusive_group(required=True)
    encoder.add_argument("--encoder", help="the folder of all-MiniLM-L6-v2")
    encoder.add_argument("--family", help="families of encoders, as in random_encoder.py, separated by commas")
    parser.add_argument("--corpus", required=True, help="the folder of GENIA")
    parser.add_argument("--models", type=names, default="seq,span,bl", help=f"some of {','.join(HEADS)}")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile; needs a C++ compiler")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--bucket", type=int, default=8, help="batches sorted by length together in training, on both sides")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fused-only", action="store_true", help="leave out AdamW without its fused form, which is slower")
    parser.add_argument("--layers", type=int, help="fewer layers for --family, to try the script")
    parser.add_argument("--python")
    parser.add_argument("--nerzoo", type=Path, help="a program that is built already")
    args = parser.parse_args()
    python = environment(args.python)
    nerzoo = args.nerzoo
    if nerzoo is None:
        subprocess.run(["cargo", "build", "--release", "--quiet"], check=True, cwd=ROOT)
        nerzoo = ROOT / "target" / "release" / "nerzoo"
    (ROOT / "target").mkdir(exist_ok=True)
    words = {}
    for what, file in {"train": "train.jsonl", "predict": "test.jsonl"}.items():
        words[what] = ROOT / "target" / f"against-pytorch-{file}"
        command = [nerzoo, "data", "convert", Path(args.corpus) / file, words[what], "--force"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"{'':44} {'sentences/s':>18} {'per CPU second':>18} {'peak memory':>12} {'nerzoo, PyTorch per CPU s':>26}")
    for name, encoder in encoders(args, python, words["train"]).items():
        for model in args.models:
            for what in ["train", "predict"]:
                compare(args, (python, nerzoo), (name, encoder), words[what], (model, what))


def compare(args, programs, named_encoder, words, kind_of_run):
    """Runs both sides in turns and prints a row for each way to run the twin."""
    (python, nerzoo), (name, encoder), (model, what) = programs, named_encoder, kind_of_run
    recipe = f"model-zoo/recipes/{HEADS[model]}-genia-minilm.toml"
    ours = [nerzoo, "bench", what, recipe, "--steps", str(args.steps), "--json"]
    ours += ["--data", str(Path(args.corpus).parent), "--set", f"encoder.pretrained={encoder}"]
    # Training takes exactly one epoch over these sentences, warm-up included.
    limit = (WARM_UP + args.steps) * args.batch
    ours += ["--set", f"train.batch={args.batch}", "--set", f"train.bucket={args.bucket}", "--set", f"data.limit={limit}"]
    theirs = [python, HERE / "twin.py", "speed", "--what", what, "--model", model, "--batch", str(args.batch)]
    theirs += ["--encoder", encoder, "--sentences", words, "--bucket", str(args.bucket)]
    theirs += ["--limit", str(limit)] if what == "train" else []
    theirs += ["--steps", str(args.steps), "--threads", str(args.threads)]
    kinds = KINDS[what] | (COMPILED[what] if args.compile else {})
    if args.fused_only:
        kinds = {kind: extra for kind, extra in kinds.items() if kind != "AdamW"}
    results = {kind: [] for kind in kinds}
    failed = {}
    for seed in range(1, args.rounds + 1):
        # Every round has other random weights and batches.
        own, problem = run(ours + ["--set", f"train.seed={seed}"], args.threads)
        if own is None:
            sys.exit(problem)
        for kind, extra in kinds.items():
            if kind in failed:
                continue
            other, problem = run(theirs + extra + ["--seed", str(seed)], args.threads)
            if other is None and "--compile" not in extra:
                sys.exit(problem)
            if other is None:
                failed[kind] = problem.strip().splitlines()[-1]
            else:
                results[kind].append((own, other))
    for kind, pairs in results.items():
        title = f"{name} {model} {what}, {kind}".strip()
        if kind in failed:
            print(f"{title:44} does not run: {failed[kind]}", flush=True)
            continue
        cells = []
        for key in ["sentences_per_second", "sentences_per_cpu_second"]:
            ratios = sorted(own[key] / other[key] for own, other in pairs)
            cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})")
        speeds = [statistics.median(pair[side][key] for pair in pairs) for side in [0, 1]]
        key = "peak_memory_bytes"
        memory = statistics.median(own[key] / other[key] for own, other in pairs)
        both = f"{speeds[0]:.1f}, {speeds[1]:.1f}"
        print(f"{title:44} {cells[0]:>18} {cells[1]:>18} {memory:>12.2f} {both:>26}", flush=True)


if __name__ == "__main__":
    main()
