"""Time and peak memory of `nerzoo predict` over texts of growing length in one line, for every head, as a Markdown table.

    python3 benches/linearity/measure.py                         # small encoders trained on quickstart for some epochs
    python3 benches/linearity/measure.py --encoder all-MiniLM-L6-v2
    python3 benches/linearity/measure.py --kind words --heads bopn --sizes 1000,100000

Kinds of text: `prose` has sentences; `words` has none, so the line is one sentence that is tagged in windows; `letters` is one
word; `chinese` has sentences without spaces. Seconds are CPU seconds of the program, so other programs disturb little. A ratio
is the time per byte compared with that of the size before it, with the time of an empty text taken off: about 1 is linear.
Needs a release build and Linux or macOS.
"""

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADS = ["seq_ner", "span_ner", "bl_ner", "bopn", "locate_label", "diffusion_ner"]
SIZES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]


def model(args, head):
    """The folder of a model with this head, trained if it is missing."""
    folder = args.work / f"{head}-{Path(args.encoder or 'scratch').name}"
    if (folder / "manifest.json").exists():
        return folder
    recipe = args.work / f"{folder.name}.toml"
    init = [args.nerzoo, "init", "--head", head, "--corpus", "quickstart", "--limit", str(args.limit), "--no-timing", "--force"]
    init += ["--out", recipe] + (["--encoder", args.encoder] if args.encoder else [])
    train = [args.nerzoo, "train", recipe, "--plain", "--out", folder, "--device", args.device]
    train += ["--set", f"train.epochs={args.epochs}"]
    for command in [init, train]:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return folder


def sentences():
    with open(ROOT / "datasets" / "quickstart" / "test.jsonl", encoding="utf-8") as lines:
        return [" ".join(json.loads(line)["tokens"]) for line in lines]


def text(kind, size):
    """A text of about `size` bytes without a line break."""
    if kind == "letters":
        return "x" * size
    if kind == "chinese":
        unit = "王小明住在北京市朝阳区，在清华大学学习计算机科学。"
        return unit * (size // len(unit.encode()) + 1)
    parts, length = [], 0
    for sentence in itertools.cycle(sentences()):
        if length >= size:
            break
        if kind == "words":
            sentence = " ".join(word for word in sentence.split() if any(map(str.isalnum, word)))
        parts.append(sentence)
        length += len(sentence.encode()) + 1
    return " ".join(parts)


# Runs a command and prints its CPU seconds and its peak memory. A process counts the memory of the one it was started from, and this one is small.
PEAK = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def measure(args, folder, content):
    """CPU seconds, peak memory in MB and number of entities of a prediction."""
    file = args.work / "input.txt"
    file.write_text(content + "\n", encoding="utf-8")
    output = args.work / "output.jsonl"
    command = [args.nerzoo, "predict", "--model", folder, file, "--device", args.device, *args.more]
    with open(output, "wb") as out:
        wrapped = [sys.executable, "-c", PEAK, *map(str, command)]
        done = subprocess.run(wrapped, stdout=out, stderr=subprocess.PIPE, cwd=ROOT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    seconds, peak = done.stderr.splitlines()[-1].split()
    unit = 1 if sys.platform == "darwin" else 1024
    record = json.loads(output.read_text(encoding="utf-8").splitlines()[0])
    if record["text"] != content:
        sys.exit(f"{folder.name}: the text came back changed")
    return float(seconds), int(peak) * unit / 1e6, len(record["entities"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nerzoo", type=Path, default=ROOT / "target" / "release" / "nerzoo")
    parser.add_argument("--encoder", help="a pretrained encoder; by default a small one trained from scratch")
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="bytes")
    parser.add_argument("--kind", choices=["prose", "words", "letters", "chinese"], default="prose")
    parser.add_argument("--limit", type=int, default=800, help="training sentences")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of training, with the other settings of `nerzoo init`")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most", type=float, help="fail if a prediction takes more memory than this, in MB")
    parser.add_argument("--work", type=Path, default=ROOT / "target" / "linearity", help="folder for models and texts")
    parser.add_argument("more", nargs="*", help="further arguments of predict, after --")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    sizes = [int(size) for size in args.sizes.split(",")]
    print(f"Texts of the kind {args.kind}, encoder {args.encoder or 'from scratch'}, device {args.device}.\n")
    print("| head | bytes | CPU seconds | kB/s | ratio | peak memory, MB | entities |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    largest = 0
    for head in args.heads.split(","):
        folder = model(args, head)
        start, _, _ = measure(args, folder, "x")
        before = None
        for size in sizes:
            content = text(args.kind, size)
            seconds, memory, entities = measure(args, folder, content)
            largest = max(largest, memory)
            per_byte = max(seconds - start, 1e-3) / len(content.encode())
            ratio = f"{per_byte / before:.2f}" if before else ""
            before = per_byte
            row = [head, f"{size:,}", f"{seconds:.2f}", f"{size / 1000 / seconds:.0f}", ratio, f"{memory:.0f}", f"{entities:,}"]
            print(f"| {' | '.join(row)} |", flush=True)
    if args.most and largest > args.most:
        sys.exit(f"{largest:.0f} MB is more than {args.most:.0f} MB")


if __name__ == "__main__":
    main()
