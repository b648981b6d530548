#!/usr/bin/env python3
"""Load on a service: many clients, each with one connection; latencies, texts per second and wrong answers.

    nerzoo serve -m runs/quickstart --port 8080 &
    nerzoo predict -m runs/quickstart datasets/quickstart/test.jsonl > runs/expected.jsonl
    python3 benches/serve/load.py --expected runs/expected.jsonl --clients 200 --requests 50

Every answer is compared with the line of `predict` for the same text; scores may differ by 0.0001, because they depend on the
batch in the last digits. A request with the status 429 is sent again after the time that the service asks for. With --pid (Linux),
the resident memory of the service over time and its texts per CPU second are printed. Needs no packages.
"""

import argparse
import http.client
import json
import os
import threading
import time


def same(one, other):
    """Whether two records are equal up to the last digits of scores."""
    if one["text"] != other["text"] or len(one["entities"]) != len(other["entities"]):
        return False
    for a, b in zip(one["entities"], other["entities"]):
        if any(a[key] != b[key] for key in ("start", "end", "label", "text")) or abs(a["score"] - b["score"]) > 1e-4:
            return False
    return True


def resident(pid):
    """Resident memory of a process in MB."""
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pid):
    """CPU time that the process has used so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Client(threading.Thread):
    """Sends requests one after the other."""

    def __init__(self, options, expected, number):
        super().__init__()
        self.options, self.expected, self.number = options, expected, number
        self.times, self.statuses, self.wrong, self.failed = [], {}, 0, []

    def run(self):
        options = self.options
        connection = http.client.HTTPConnection(options.host, options.port, timeout=120)
        headers = {"Content-Type": "application/json"}
        if options.token:
            headers["Authorization"] = f"Bearer {options.token}"
        for request in range(options.requests):
            first = (self.number * options.requests + request) * options.texts
            chosen = [self.expected[(first + index) % len(self.expected)] for index in range(options.texts)]
            body = json.dumps({"texts": [record["text"] for record in chosen]})
            while True:
                start = time.perf_counter()
                try:
                    connection.request("POST", "/v1/tag", body, headers)
                    answer = connection.getresponse()
                    content = answer.read()
                except OSError as problem:
                    self.failed.append(str(problem))
                    connection.close()
                    break
                self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
                if answer.status == 429:
                    time.sleep(float(answer.getheader("Retry-After", "1")))
                    continue
                self.times.append(time.perf_counter() - start)
                if answer.status == 200:
                    results = json.loads(content)["results"]
                    self.wrong += sum(not same(one, other) for one, other in zip(results, chosen))
                    self.wrong += len(chosen) != len(results)
                break
        connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--token")
    parser.add_argument("--expected", required=True, help="what predict prints, one record per line")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--requests", type=int, default=50, help="of each client")
    parser.add_argument("--texts", type=int, default=1, help="of each request")
    parser.add_argument("--pid", type=int, help="process of the service")
    options = parser.parse_args()
    with open(options.expected) as file:
        expected = [record for record in map(json.loads, file) if "error" not in record]
    clients = [Client(options, expected, number) for number in range(options.clients)]
    memory, done = [], threading.Event()

    def watch():
        while not done.wait(1.0):
            memory.append(resident(options.pid))

    watcher = threading.Thread(target=watch)
    if options.pid:
        watcher.start()
    used = cpu_seconds(options.pid) if options.pid else 0.0
    start = time.perf_counter()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    seconds = time.perf_counter() - start
    used = cpu_seconds(options.pid) - used if options.pid else 0.0
    done.set()
    times = sorted(one for client in clients for one in client.times)
    statuses = {}
    for client in clients:
        for status, count in client.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    failed = [problem for client in clients for problem in client.failed]

    def percentile(share):
        return 1000 * times[min(len(times) - 1, int(share * len(times)))] if times else float("nan")

    texts = statuses.get(200, 0) * options.texts
    print(f"{options.clients} clients, {options.requests} requests each, {options.texts} texts per request")
    print(f"statuses {statuses}, connections failed {len(failed)} {failed[:3]}, wrong answers {sum(c.wrong for c in clients)}")
    print(f"ms: p50 {percentile(0.5):.1f}, p95 {percentile(0.95):.1f}, p99 {percentile(0.99):.1f}; {texts / seconds:.0f} texts/s")
    if options.pid:
        print(f"{texts / max(used, 0.01):.0f} texts per CPU second of the service")
    if memory:
        tenth = max(1, len(memory) // 10)
        print(f"resident memory: {memory[0]:.0f} MB at first, {max(memory[:tenth]):.0f} after a tenth, {memory[-1]:.0f} at the end")


if __name__ == "__main__":
    main()
