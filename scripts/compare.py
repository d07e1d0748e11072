#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs nib and other engines in turns on the same models and prints a table of medians.

    scripts/compare.py [OPTIONS] --nib NIB --peer KIND=BIN_FOLDER [--peer ...] MODEL...

scripts/compare-peers builds the engines and calls this. KIND is llama.cpp or ik_llama.cpp. Tests:

    pp512   reading a prompt of 512 tokens                             tokens/s
    tg128   generating 128 tokens                                      tokens/s
    x8 x32  8 or 32 sequences, each of 128 tokens, generating 64 more  tokens/s of all together
    depth   generating 64 tokens behind a prompt of --depth tokens     tokens/s
    start   start of the process to the first token, prompt of about 64 tokens      s
    memory  peak of a process that read a prompt of 2048 tokens        MiB

A peer runs each test once in every setting it has (flash attention on and off, repacked weights on
and off), then takes part with the best. All engines have the same threads on the same cores; who
goes first changes from round to round. --busy runs one spinning process on each of these cores
beside the engines.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

BATCH_PROMPT, BATCH_TOKENS, DEPTH_TOKENS, MEMORY_PROMPT = 128, 64, 64, 2048
SENTENCE = "The engineer wrote down what she had seen that day and went home. "
PROMPT = SENTENCE * 4  # about 64 tokens in most vocabularies

TESTS = {  # name: (words, format, whether more is better)
    "pp512": ("prompt, 512 tokens (tokens/s)", "{:.1f}", True),
    "tg128": ("generation, 128 tokens (tokens/s)", "{:.1f}", True),
    "x8": ("8 sequences together (tokens/s)", "{:.1f}", True),
    "x32": ("32 sequences together (tokens/s)", "{:.1f}", True),
    "depth": ("generation behind {depth} tokens (tokens/s)", "{:.1f}", True),
    "start": ("start to first token (s)", "{:.3f}", False),
    "memory": ("peak memory, 2048 tokens (MiB)", "{:.0f}", False),
}


def run(command, both=False):
    """(stdout, seconds, peak MiB) of a process; ends the program if it fails. both: stderr too."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, errors = (f.read().decode(errors="replace") for f in (out, err))
        if child.returncode != 0:
            sys.exit(f"compare: {' '.join(command)} ended with {child.returncode}: "
                     + " | ".join(errors.strip().splitlines()[-3:]))
        return text + (errors if both else ""), seconds, usage.ru_maxrss / 1024


class Nib:
    name = "nib"

    def __init__(self, program, args):
        self.program, self.args = program, args

    def settings(self):
        return [""]

    def bench(self, model, *flags):
        out, _, peak = run([self.program, "bench", "-m", model, "-r", "1", "-t",
                            str(self.args.threads), "--no-roofline", "--json", *flags])
        return json.loads(out)[0]["tokens_per_s"]["median"], peak

    def measure(self, test, model, _setting):
        if test == "pp512":
            return self.bench(model, "-p", "512", "-n", "0")[0]
        if test == "tg128":
            return self.bench(model, "-p", "0", "-n", "128")[0]
        if test in ("x8", "x32"):
            return self.bench(model, "-p", "0", "-n", "0", "-b", test[1:], "--batch-prompt",
                              str(BATCH_PROMPT))[0]
        if test == "depth":
            return self.bench(model, "-p", "0", "-n", str(DEPTH_TOKENS), "-d",
                              str(self.args.depth))[0]
        if test == "memory":
            return self.bench(model, "-p", str(MEMORY_PROMPT), "-n", "0")[1]
        return run([self.program, "run", "-m", model, "-p", PROMPT, "-n", "1", "--temp", "0",
                    "-t", str(self.args.threads)])[1]


class Peer:
    """llama.cpp or ik_llama.cpp: the same tools, a few flags apart. A setting is (flash, repack)."""

    def __init__(self, kind, folder, args):
        self.name, self.folder, self.args = kind, folder, args
        self.is_ik = kind == "ik_llama.cpp"

    def settings(self):
        return list(itertools.product((0, 1), (0, 1)))

    def words(self, setting):
        flash, repack = setting
        return f"-fa {flash}, " + (f"-rtr {repack}" if self.is_ik else f"--repack {repack}")

    def bench(self, model, setting, *flags):
        flash, repack = setting
        repack_flags = ["-rtr" if self.is_ik else "--repack", str(repack)]
        out, _, peak = run([f"{self.folder}/llama-bench", "-m", model, "-r", "1", "-t",
                            str(self.args.threads), "-fa", str(flash), *repack_flags,
                            "-o", "json", *flags])
        # Some versions print other lines before the list.
        return json.loads(out[out.index("[\n"):])[-1]["avg_ts"], peak

    def common_flags(self, setting):
        flash, repack = setting
        flags = ["-fa", "on" if flash else "off", "-t", str(self.args.threads)]
        if self.is_ik:
            return flags + (["-rtr"] if repack else [])
        return flags + ([] if repack else ["--no-repack"])

    def batched(self, model, setting, sequences):
        context = sequences * (BATCH_PROMPT + BATCH_TOKENS)
        out, _, _ = run([f"{self.folder}/llama-batched-bench", "-m", model, "-c", str(context),
                         "-npp", str(BATCH_PROMPT), "-ntg", str(BATCH_TOKENS), "-npl",
                         str(sequences), *self.common_flags(setting)], both=True)
        rows = re.findall(r"^\|((?: *[\d.]+ *\|){10})", out, re.M)
        if not rows:
            sys.exit("compare: llama-batched-bench printed no row")
        return float(rows[-1].split("|")[7])  # S_TG t/s

    def start(self, model, setting):
        program = "llama-cli" if self.is_ik else "llama-completion"
        flags = [] if self.is_ik else ["-no-cnv"]
        return run([f"{self.folder}/{program}", "-m", model, "-p", PROMPT, "-n", "1", "-c", "2048",
                    "--temp", "0", "--no-warmup", *flags, *self.common_flags(setting)])[1]

    def measure(self, test, model, setting):
        if test == "pp512":
            return self.bench(model, setting, "-p", "512", "-n", "0")[0]
        if test == "tg128":
            return self.bench(model, setting, "-p", "0", "-n", "128")[0]
        if test in ("x8", "x32"):
            return self.batched(model, setting, int(test[1:]))
        if test == "depth":
            if self.is_ik:
                return self.bench(model, setting, "-p", "0", "-n", "0", "-gp",
                                  f"{self.args.depth},{DEPTH_TOKENS}")[0]
            return self.bench(model, setting, "-p", "0", "-n", str(DEPTH_TOKENS), "-d",
                              str(self.args.depth))[0]
        if test == "memory":
            return self.bench(model, setting, "-p", str(MEMORY_PROMPT), "-n", "0")[1]
        return self.start(model, setting)


class BusyCores:
    """One spinning process on each core while the object is entered."""

    def __init__(self, cores):
        self.cores, self.children = cores, []

    def __enter__(self):
        for core in self.cores:
            self.children.append(subprocess.Popen(
                [sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL,
                preexec_fn=lambda core=core: os.sched_setaffinity(0, [core])))
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def best_setting(engine, test, model):
    settings = engine.settings()
    if len(settings) == 1:
        return settings[0]
    results = {s: engine.measure(test, model, s) for s in settings}
    return (max if TESTS[test][2] else min)(results, key=results.get)


def compare(test, model, engines, rounds):
    """{engine name: (median, setting)}"""
    settings = {e.name: best_setting(e, test, model) for e in engines}
    values = {e.name: [] for e in engines}
    for number in range(rounds):
        print(f"compare: {pathlib.Path(model).name}, {test}, round {number + 1}", file=sys.stderr)
        order = engines if number % 2 == 0 else engines[::-1]
        for engine in order:
            values[engine.name].append(engine.measure(test, model, settings[engine.name]))
    return {name: (statistics.median(list_), settings[name]) for name, list_ in values.items()}


def print_head(model, engines):
    peers = engines[1:]
    print(f"\n{pathlib.Path(model).name}\n")
    print("| | nib | " + " | ".join(f"{p.name} | times better" for p in peers)
          + " | peer's setting |")
    print("|---|---:|" + "---:|---:|" * len(peers) + "---|")


def print_row(test, result, engines, args):
    words, form, more = TESTS[test]
    ours = result["nib"][0]
    cells = [words.format(depth=args.depth), form.format(ours)]
    for peer in engines[1:]:
        theirs = result[peer.name][0]
        cells += [form.format(theirs), f"{ours / theirs if more else theirs / ours:.2f}"]
    cells.append("; ".join(p.words(result[p.name][1]) for p in engines[1:]))
    print("| " + " | ".join(cells) + " |", flush=True)


def read_arguments():
    cores = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-t", "--threads", type=int, default=len(cores))
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--tests", default=",".join(TESTS), help="list of " + ", ".join(TESTS))
    parser.add_argument("--depth", type=int, default=7000)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--nib", required=True)
    parser.add_argument("--peer", action="append", required=True, metavar="KIND=BIN_FOLDER")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    args.tests = args.tests.split(",")
    args.cores = cores[:max(1, args.threads)]
    if args.rounds < 1 or args.threads < 1 or args.depth < 1:
        parser.error("-r, -t and --depth: expected numbers above 0")
    for test in args.tests:
        if test not in TESTS:
            parser.error(f"--tests: no test {test!r}, there are {', '.join(TESTS)}")
    for peer in args.peer:
        if peer.partition("=")[0] not in ("llama.cpp", "ik_llama.cpp"):
            parser.error(f"--peer: expected llama.cpp=FOLDER or ik_llama.cpp=FOLDER, got {peer!r}")
    return args


def main():
    args = read_arguments()
    os.sched_setaffinity(0, args.cores)
    engines = [Nib(args.nib, args)]
    for peer in args.peer:
        kind, _, folder = peer.partition("=")
        engines.append(Peer(kind, folder, args))
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"compare: the machine is busy (load average {load:.2f}): these numbers say little",
              file=sys.stderr)
    print(f"{cpu_name()}, {args.threads} threads, rounds: {args.rounds}, in turns, medians; "
          f"load average at the start {load:.2f}"
          + ("; one busy process on each core" if args.busy else ""))
    with BusyCores(args.cores if args.busy else []):
        for model in args.models:
            print_head(model, engines)
            for test in args.tests:
                print_row(test, compare(test, model, engines, args.rounds), engines, args)


if __name__ == "__main__":
    main()
