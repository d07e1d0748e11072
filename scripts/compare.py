#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs nib and llama.cpp in turns on the same models and prints a table of medians.

    scripts/compare.py [-t THREADS] [-r ROUNDS] NIB PEER_BIN MODEL...

scripts/compare-peers builds both and calls this. In every round each engine reads a prompt of 512
tokens and generates 128 (its own bench), then starts anew and generates one token (start: wall time
of that process); the engine that goes first changes from round to round. Memory is the peak of
the bench process as the system counts it.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROMPT, GENERATED = 512, 128


def run(command):
    """(stdout, seconds, peak MiB) of a process; ends the program if it fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            lines = err.read().decode(errors="replace").strip().splitlines()[-3:]
            sys.exit(f"compare: {' '.join(command)} ended with {child.returncode}: "
                     + " | ".join(lines))
        return out.read().decode(errors="replace"), seconds, usage.ru_maxrss / 1024


def nib_round(nib, model, threads):
    out, _, peak = run([nib, "bench", "-m", model, "-p", str(PROMPT), "-n", str(GENERATED),
                        "-r", "1", "-t", str(threads), "--json"])
    rates = {row["test"]: row["tokens_per_s"]["median"] for row in json.loads(out)}
    _, start, _ = run([nib, "run", "-m", model, "-p", "Hello", "-n", "1", "--temp", "0",
                       "-t", str(threads)])
    return {"pp": rates[f"pp{PROMPT}"], "tg": rates[f"tg{GENERATED}"], "start": start,
            "peak": peak}


def peer_round(folder, model, threads):
    out, _, peak = run([folder + "/llama-bench", "-m", model, "-p", str(PROMPT),
                        "-n", str(GENERATED), "-r", "1", "-t", str(threads), "-o", "json"])
    rates = {("tg" if row["n_gen"] else "pp"): row["avg_ts"] for row in json.loads(out)}
    _, start, _ = run([folder + "/llama-completion", "-m", model, "-p", "Hello", "-n", "1",
                       "--temp", "0", "-no-cnv", "--no-warmup", "-t", str(threads)])
    return {**rates, "start": start, "peak": peak}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


ROWS = [  # key, words, format, whether more is better
    ("pp", f"prompt, {PROMPT} tokens (tokens/s)", "{:.1f}", True),
    ("tg", f"generation, {GENERATED} tokens (tokens/s)", "{:.1f}", True),
    ("start", "start to first token (s)", "{:.2f}", False),
    ("peak", "peak memory (MiB)", "{:.0f}", False),
]


def print_table(model, rounds):
    print(f"\n{pathlib.Path(model).name}\n")
    print("| | nib | llama.cpp | times better (below 1: worse) |")
    print("|---|---:|---:|---:|")
    for key, words, form, more in ROWS:
        ours, theirs = (statistics.median(r[key] for r in rounds[who]) for who in ("nib", "peer"))
        gain = ours / theirs if more else theirs / ours
        print(f"| {words} | {form.format(ours)} | {form.format(theirs)} | {gain:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("nib")
    parser.add_argument("peer_bin")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"compare: the machine is busy (load average {load:.2f}): these numbers say little",
              file=sys.stderr)
    print(f"{cpu_name()}, {args.threads} threads, rounds: {args.rounds}, in turns, medians; "
          f"load average at the start {load:.2f}")
    for model in args.models:
        rounds = {"nib": [], "peer": []}
        for number in range(args.rounds):
            print(f"compare: {pathlib.Path(model).name}, round {number + 1}", file=sys.stderr)
            order = ["nib", "peer"] if number % 2 == 0 else ["peer", "nib"]
            for who in order:
                rounds[who].append(nib_round(args.nib, model, args.threads) if who == "nib"
                                   else peer_round(args.peer_bin, model, args.threads))
        print_table(model, rounds)


if __name__ == "__main__":
    main()
