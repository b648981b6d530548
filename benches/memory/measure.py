"""Estimates of `nerzoo bench memory` beside the peak memory of training steps on the CPU, for every head, as a Markdown table.

    python3 benches/memory/measure.py                                        # small encoders trained from scratch
    python3 benches/memory/measure.py --encoders scratch,all-MiniLM-L6-v2 --words 24,64
    python3 benches/memory/measure.py --heads seq_ner --set train.recompute=true

All sentences have the given number of words, so that every batch is as large as the largest. The peak is that of a process of
its own for each measurement, program and corpus included. Needs a release build and Linux or macOS.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADS = ["seq_ner", "span_ner", "bl_ner", "bopn", "locate_label", "diffusion_ner"]


def run(command):
    """Runs a command in the repository and returns what it prints."""
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def recipe(args, head, encoder):
    """A recipe for a head and an encoder with the settings that `init` chooses."""
    path = args.work / f"{head}-{Path(encoder).name}.toml"
    command = [args.nerzoo, "init", "--head", head, "--corpus", "quickstart", "--no-timing", "--force", "--out", path]
    run(command + ([] if encoder == "scratch" else ["--encoder", encoder]))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nerzoo", type=Path, default=ROOT / "target/release/nerzoo", help="the program")
    parser.add_argument("--trainer", type=Path, help="the program that trains, if it is another one")
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--encoders", default="scratch", help="names or folders, or `scratch`")
    parser.add_argument("--words", default="24,64", help="words of all sentences")
    parser.add_argument("--set", action="append", default=[], help="a setting of the recipe, such as train.batch=8")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--work", type=Path, default=ROOT / "target/memory")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    sets = [part for value in args.set for part in ("--set", value)]
    print("| head | encoder | words | estimate (MB) | peak (MB) | ratio |\n|---|---|---|---|---|---|", flush=True)
    for encoder in args.encoders.split(","):
        for head in args.heads.split(","):
            path = recipe(args, head, encoder)
            for words in args.words.split(","):
                common = [path, "--lengths", words, "--json", "--device", "cpu"] + sets
                wanted = ("f32", False)
                for setting in args.set:
                    key, _, value = setting.partition("=")
                    wanted = (value.strip('"'), wanted[1]) if key == "train.precision" else wanted
                    wanted = (wanted[0], value == "true") if key == "train.recompute" else wanted
                rows = json.loads(run([args.nerzoo, "bench", "memory"] + common))
                row = next(row for row in rows if (row["precision"], row["recompute"]) == wanted)
                trained = json.loads(run([args.trainer or args.nerzoo, "bench", "train", "--steps", args.steps] + common))
                estimate, peak = row["total_bytes"] / 1e6, trained[0]["peak_memory_bytes"] / 1e6
                print(f"| {head} | {Path(encoder).name} | {words} | {estimate:.0f} | {peak:.0f} | {estimate / peak:.2f} |", flush=True)


if __name__ == "__main__":
    main()
