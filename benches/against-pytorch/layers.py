"""Times single layers beside PyTorch's, in turns: the BiLSTM and the 3-D convolution of `cargo bench -p nerzoo-benches`.

    python3 benches/against-pytorch/layers.py

Two threads on both sides; above 1 nerzoo is faster. --python names an interpreter that has torch; otherwise one is made.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

from compare import ROOT, environment

UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def ours(threads):
    command = ["cargo", "bench", "-p", "nerzoo-benches", "--bench", "layers", "--", "--warm-up-time", "1", "--measurement-time", "2"]
    settings = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    command.append("(BiLSTM|3-D convolution.*), kernel")
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=ROOT)
    if done.returncode:
        sys.exit(done.stderr)
    found = {}
    for name, number, unit in re.findall(r"^(\S.*?)\s+time:\s+\[\S+ \S+ (\S+) (\S+) ", done.stdout, re.M):
        found[name.replace(", kernel", "")] = float(number) * UNITS[unit]
    # Long names stand on a line of their own.
    for name, number, unit in re.findall(r"^(\S.*)\n\s+time:\s+\[\S+ \S+ (\S+) (\S+) ", done.stdout, re.M):
        found[name.replace(", kernel", "")] = float(number) * UNITS[unit]
    return found


def theirs(threads):
    import time

    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)

    def clock(work):
        for _ in range(5):
            work()
        times = []
        for _ in range(40):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return statistics.median(times)

    found = {}
    lstm = torch.nn.LSTM(384, 256, batch_first=True, bidirectional=True)
    sentences = torch.randn(8, 32, 384)

    def forward():
        with torch.no_grad():
            lstm(sentences)

    def gradient():
        lstm.zero_grad()
        lstm(sentences.requires_grad_())[0].sum().backward()

    found["BiLSTM, forward"] = clock(forward)
    found["BiLSTM, with gradient"] = clock(gradient)
    for dilation in [1, 2]:
        grid = torch.randn(8, 10, 5, 32, 32)
        around = (1, dilation, dilation)
        layer = torch.nn.Conv3d(10, 10, 3, padding=around, dilation=around)
        gelu = torch.nn.functional.gelu

        def forward():
            with torch.no_grad():
                gelu(layer(grid))

        def gradient():
            layer.zero_grad()
            gelu(layer(grid.requires_grad_())).sum().backward()

        name = f"3-D convolution and GELU, dilation {dilation}"
        found[f"{name}, forward"] = clock(forward)
        found[f"{name}, with gradient"] = clock(gradient)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python")
    parser.add_argument("--theirs", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.theirs:
        print(json.dumps(theirs(args.threads)))
        return
    python = environment(args.python)
    command = [python, __file__, "--theirs", "--threads", str(args.threads)]
    settings = dict(os.environ, OMP_NUM_THREADS=str(args.threads), OMP_WAIT_POLICY="passive")
    rounds = []
    for _ in range(args.rounds):
        mine = ours(args.threads)
        done = subprocess.run(command, capture_output=True, text=True, env=settings, check=True)
        rounds.append((mine, json.loads(done.stdout)))
    print(f"{'':50} {'nerzoo':>10} {'PyTorch':>10}   ratio")
    for name in rounds[0][1]:
        ratios = sorted(other[name] / mine[name] for mine, other in rounds)
        times = [statistics.median(pair[side][name] for pair in rounds) * 1e3 for side in [0, 1]]
        print(
            f"{name:50} {times[0]:7.2f} ms {times[1]:7.2f} ms   "
            f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
        )


if __name__ == "__main__":
    main()
