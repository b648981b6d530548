"""Times nerzoo beside PyTorch on the same sentences, in turns, and prints ratios with their spread.

    python3 benches/against-pytorch/compare.py --encoder FOLDER --corpus GENIA_FOLDER
    python3 benches/against-pytorch/compare.py --family deberta-v2,mpnet --models seq --corpus GENIA_FOLDER

The second form makes encoders of the base size of these families, with random weights, in target/.
Makes its own Python environment under target/ with torch and transformers, unless --python names one that has them.
Both sides run with two threads; above 1 nerzoo is faster.
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


def environment(given):
    if given:
        return given
    folder = ROOT / "target" / "against-pytorch"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "transformers"], check=True)
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
    settings = dict(os.environ)
    settings.update(RAYON_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY="passive")
    settings.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout[done.stdout.index("{") :])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    encoder = parser.add_mutually_exclusive_group(required=True)
    encoder.add_argument("--encoder", help="the folder of all-MiniLM-L6-v2")
    encoder.add_argument("--family", help="families of encoders, as in random_encoder.py, separated by commas")
    parser.add_argument("--corpus", required=True, help="the folder of GENIA")
    parser.add_argument("--models", default="seq,span,bl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
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
    words = ROOT / "target" / "against-pytorch.jsonl"
    subprocess.run(
        [nerzoo, "data", "convert", Path(args.corpus) / "train.jsonl", words, "--force"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    print(f"{'':36} {'sentences/s':>18} {'per CPU second':>18} {'peak memory':>14}")
    for name, encoder in encoders(args, python, words).items():
        for model in args.models.split(","):
            for what in ["train", "predict"]:
                compare(args, (python, nerzoo), (name, encoder), words, (model, what))


def compare(args, programs, named_encoder, words, kind_of_run):
    """Runs both sides in turns and prints a row for each kind of optimizer."""
    (python, nerzoo), (name, encoder), (model, what) = programs, named_encoder, kind_of_run
    recipe = f"model-zoo/recipes/{model}_ner-genia-minilm.toml"
    ours = [nerzoo, "bench", what, recipe, "--steps", str(args.steps), "--json"]
    ours += ["--data", str(Path(args.corpus).parent), "--set", f"encoder.pretrained={encoder}"]
    ours += ["--set", f"train.batch={args.batch}"]
    theirs = [python, HERE / "twin.py", "speed", "--what", what, "--model", model, "--batch", str(args.batch)]
    theirs += ["--encoder", encoder, "--sentences", words, "--limit", "6000"]
    theirs += ["--steps", str(args.steps), "--threads", str(args.threads)]
    kinds = ["AdamW", "fused AdamW"] if what == "train" else ["no_grad"]
    if args.fused_only:
        kinds = kinds[-1:]
    results = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        own = run(ours, args.threads)
        for kind in kinds:
            extra = ["--fused"] if kind == "fused AdamW" else []
            results[kind].append((own, run(theirs + extra, args.threads)))
    for kind, pairs in results.items():
        cells = []
        for key in ["sentences_per_second", "sentences_per_cpu_second"]:
            ratios = sorted(own[key] / other[key] for own, other in pairs)
            cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})")
        key = "peak_memory_bytes"
        memory = statistics.median(own[key] / other[key] for own, other in pairs)
        title = f"{name} {model} {what}, {kind}".strip()
        print(f"{title:36} {cells[0]:>18} {cells[1]:>18} {memory:>14.2f}", flush=True)


if __name__ == "__main__":
    main()
