"""Kernels that a GPU runs in a training step, and kernels that it compiles, for every head, as a Markdown table.

    python3 benches/kernels/count.py --nerzoo target/gpu/nerzoo --device wgpu
    python3 benches/kernels/count.py --heads seq_ner,bopn --names 8      # with the most frequent kernels
    python3 benches/kernels/count.py --set train.shapes=exact --words 0  # sentences of the corpus's own lengths

Burn's GPU runtime, cubecl, writes a line for each kernel that it launches or compiles, as a `cubecl.toml` in the working directory
asks for. With sentences of one length all steps launch the same kernels, and the number of launches in a step is the period of
that list. Encoders are small (two layers, 32 wide) and trained from scratch, so a software device is enough: on Mesa's
software Vulkan (`.ci/vulkan.sh`) a head takes about a minute of CPU time.
"""

import argparse
import collections
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADS = ["seq_ner", "span_ner", "bl_ner", "bopn", "locate_label", "diffusion_ner"]

RECIPE = """
[data]
train = [{corpus}]
limit = 200
[encoder.scratch]
vocabulary = 200
layers = {layers}
width = 32
heads = 2
feed_forward = 64
[head]
name = "{head}"
[train]
batch = 4
"""

LOGS = """
[profiling.logger]
level = "minimal"
file = {launches}
append = false
[compilation.logger]
level = "basic"
file = {compiled}
append = false
"""


def period(names):
    """The smallest number of last names that repeat the names before them; None if they do not."""
    for count in range(20, len(names) // 2 + 1):
        if names[-count:] == names[-2 * count : -count]:
            return count
    return None


def count(args, head, folder):
    """Runs training steps and returns names of launched kernels and the number of compiled ones."""
    corpus = json.dumps(str(ROOT / "datasets/quickstart/train.jsonl"))
    launches, compiled = folder / "launches.log", folder / "compiled.log"
    (folder / "recipe.toml").write_text(RECIPE.format(corpus=corpus, head=head, layers=args.layers))
    paths = {"launches": json.dumps(str(launches)), "compiled": json.dumps(str(compiled))}
    (folder / "cubecl.toml").write_text(LOGS.format(**paths))
    command = [args.nerzoo.resolve(), "bench", "train", "recipe.toml", "--device", args.device, "--steps", args.steps]
    if args.words:
        command += ["--lengths", args.words]
    for assignment in args.set:
        command += ["--set", assignment]
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{head}: {done.stderr}")
    lines = launches.read_text().splitlines() if launches.is_file() else []
    # "Executing NAME_HASH"; the hash depends on values that change from step to step.
    names = [line.split(" ", 1)[1].rsplit("_", 1)[0] for line in lines if line.startswith("Executing ")]
    if not names:
        sys.exit(f"{head}: no launch was logged; {args.device} is not a device of Burn's GPU runtime")
    return names, len(compiled.read_text().splitlines()) if compiled.is_file() else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nerzoo", type=Path, default=ROOT / "target/gpu/nerzoo", help="the program, built for a GPU")
    parser.add_argument("--device", default="wgpu", help="the device")
    parser.add_argument("--heads", default=",".join(HEADS), help="heads, separated by commas")
    parser.add_argument("--layers", type=int, default=2, help="layers of the encoder")
    parser.add_argument("--words", type=int, default=16, help="words of every sentence; 0 for the corpus's own lengths")
    parser.add_argument("--steps", type=int, default=2, help="steps after three to warm up")
    parser.add_argument("--set", action="append", default=[], help="KEY=VALUE of the recipe")
    parser.add_argument("--names", type=int, default=0, help="print so many of the most frequent kernels of a step")
    args = parser.parse_args()
    print("| head | kernels in a step | in all steps | compiled |\n|---|---|---|---|")
    for head in args.heads.split(","):
        with tempfile.TemporaryDirectory() as folder:
            names, compiled = count(args, head, Path(folder))
        step = period(names)
        print(f"| {head} | {step or 'differs'} | {len(names)} | {compiled} |", flush=True)
        if args.names:
            frequent = collections.Counter(names[-(step or len(names)) :]).most_common(args.names)
            print("\n".join(f"    {number} {name}" for name, number in frequent), flush=True)


if __name__ == "__main__":
    main()
