"""Times nerzoo beside PyTorch on the same sentences, in turns, and prints ratios with their spread.

    python3 benches/against-pytorch/compare.py --encoder FOLDER --corpus GENIA_FOLDER

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
    parser.add_argument("--encoder", required=True, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--corpus", required=True, help="the folder of GENIA")
    parser.add_argument("--models", default="seq,span,bl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python")
    args = parser.parse_args()
    python = environment(args.python)
    subprocess.run(["cargo", "build", "--release", "--quiet"], check=True, cwd=ROOT)
    nerzoo = ROOT / "target" / "release" / "nerzoo"
    words = ROOT / "target" / "against-pytorch.jsonl"
    subprocess.run(
        [nerzoo, "data", "convert", Path(args.corpus) / "train.jsonl", words, "--force"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    recipe = "model-zoo/recipes/{}_ner-genia-minilm.toml"
    print(f"{'':22} {'sentences/s':>24} {'per CPU second':>18} {'peak memory':>14}")
    for model in args.models.split(","):
        for what in ["train", "predict"]:
            ours = [nerzoo, "bench", what, recipe.format(model), "--steps", str(args.steps), "--json"]
            ours += ["--data", str(Path(args.corpus).parent), "--set", f"encoder.pretrained={args.encoder}"]
            ours += ["--set", "train.batch=16"]
            theirs = [python, HERE / "twin.py", "speed", "--what", what, "--model", model]
            theirs += ["--encoder", args.encoder, "--sentences", words, "--limit", "6000"]
            theirs += ["--steps", str(args.steps), "--threads", str(args.threads)]
            kinds = ["AdamW", "fused AdamW"] if what == "train" else ["no_grad"]
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
                print(f"{model + ' ' + what + ', ' + kind:28} {cells[0]:>18} {cells[1]:>18} {memory:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
