"""Sends many short lines through `nerzoo predict` and checks that every line is answered in order and that memory stays flat.

    python3 benches/soak/soak.py                      # a million lines through a small model
    python3 benches/soak/soak.py --lines 100000 --model runs/quickstart

Every line has words that no other line has, so that caches cannot hold all of them. The resident memory of the program is
measured after every hundredth of the lines. After the first tenth, each measurement has to be within 5 % of their mean; the
exit code is 1 otherwise. Needs a release build and Linux.
"""

import argparse
import json
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPE = """
[data]
corpus = "quickstart"
limit = 200

[encoder.scratch]
vocabulary = 300
layers = 1
width = 16
heads = 2
feed_forward = 32

[head]
name = "seq_ner"

[train]
epochs = 2
batch = 8
learning_rate = 3e-3
"""


def model(args):
    """The folder of the model, trained if none is given."""
    if args.model:
        return args.model
    folder = args.work / "model"
    if not (folder / "manifest.json").exists():
        recipe = args.work / "recipe.toml"
        recipe.write_text(RECIPE)
        command = [args.nerzoo, "train", recipe, "--plain", "--device", "cpu", "--out", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return folder


def line(number):
    """A short text; the number in it tells whose answer is whose."""
    return f"Marta K{number}r visited the Lindholm Institute number {number} ."


def resident(pid):
    """Resident memory in bytes."""
    with open(f"/proc/{pid}/statm") as text:
        return int(text.read().split()[1]) * 4096


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as text:
        fields = text.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nerzoo", type=Path, default=ROOT / "target" / "release" / "nerzoo", help="the program")
    parser.add_argument("--work", type=Path, default=ROOT / "target" / "soak", help="folder for the model")
    parser.add_argument("--model", type=Path, help="a model folder; by default a small one is trained")
    parser.add_argument("--lines", type=int, default=1_000_000)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    command = [args.nerzoo.resolve(), "predict", "--model", model(args), "--device", "cpu", "-"]
    program = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send():
        with program.stdin as pipe:
            for first in range(0, args.lines, 1000):
                numbers = range(first, min(first + 1000, args.lines))
                pipe.write("".join(line(number) + "\n" for number in numbers).encode())

    threading.Thread(target=send, daemon=True).start()
    every = max(args.lines // 100, 1)
    samples, mentions, seconds, count = [], 0, 0.0, 0
    for answer in program.stdout:
        record = json.loads(answer)
        if record["text"] != line(count):
            program.kill()
            sys.exit(f"line {count + 1} was answered by {answer!r}")
        mentions += len(record["entities"])
        count += 1
        if count % every == 0 and count < args.lines:
            samples.append(resident(program.pid))
            seconds = cpu_seconds(program.pid)
    if program.wait() or count != args.lines:
        sys.exit(f"{count} of {args.lines} lines were answered, exit code {program.returncode}")
    later = samples[len(samples) // 10 :]
    mean = sum(later) / len(later)
    low, high = min(later) / mean - 1, max(later) / mean - 1
    megabytes = [round(sample / 1e6, 1) for sample in samples[::10]]
    print(f"{count} lines in order, {mentions} mentions, {seconds:.0f} CPU seconds")
    print(f"resident memory in MB after every tenth: {megabytes}")
    print(f"after the first tenth: mean {mean / 1e6:.1f} MB, {100 * low:+.1f} % to {100 * high:+.1f} %")
    if low < -0.05 or high > 0.05:
        sys.exit("memory is not flat")


if __name__ == "__main__":
    main()
