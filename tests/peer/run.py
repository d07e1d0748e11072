#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the tests of llama.cpp's server against `nib serve` and compares with expected.txt:

    tests/peer/run.py [--nib NIB] [--source FOLDER] [--write] [--details] [FILE...]

The tests come from the source archive that scripts/compare-peers fetches, and run in a copy outside
of it, with the Python of .venv (scripts/python-packages peer). FILE: test_basic.py and the like;
all of expected.txt without any. A line of expected.txt is

    FILE::TEST pass
    FILE::TEST fail  why, in words

Ends with 1 if a test that should pass failed; one that passed against expectation is only told.
--write adds what is missing in the list, --details shows what was asked and answered.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "nib")
SOURCE = CACHE / "peers" / "llama-cpp-python-0.3.36" / "vendor" / "llama.cpp" / "tools" / "server" / "tests"
SKIPPED = 77
LIST = HERE / "expected.txt"


def read_list():
    expected = {}
    for line in LIST.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, verdict, *why = line.split(maxsplit=2)
            expected[name] = (verdict, why[0] if why else "")
    return expected


def run_tests(source, python, nib, files, style):
    """{name: passed, failed, error or skipped}; of a test with parameters the worst."""
    order = ["skipped", "passed", "error", "failed"]
    verdicts = {}
    with tempfile.TemporaryDirectory(prefix="nib-peer-") as folder:
        copy = pathlib.Path(folder, "tools", "server", "tests")
        shutil.copytree(source, copy)
        templates = source.parents[2] / "models" / "templates"
        if templates.is_dir():  # some tests read templates beside them
            shutil.copytree(templates, pathlib.Path(folder, "models", "templates"))
        environment = {**os.environ, "NIB": str(nib), "LLAMA_CACHE": str(copy / "tmp"),
                       "LLAMA_SERVER_BIN_PATH": str(HERE / "llama-server")}
        process = subprocess.Popen(
            [python, "-m", "pytest", "-v", f"--tb={style}", "-p", "no:cacheprovider", "-m", "not slow",
             *[f"unit/{file}" for file in files]],
            cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            print(line, end="", file=sys.stderr)
            found = re.search(r"unit/(test_\w+\.py::\w+)\S*.* (PASSED|FAILED|ERROR|SKIPPED)", line)
            if found and "%]" in line:
                name, verdict = found[1], found[2].lower()
                before = verdicts.get(name, verdict)
                verdicts[name] = max(before, verdict, key=order.index)
        process.wait()
    return verdicts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nib", type=pathlib.Path, default=ROOT / "build" / "release" / "nib")
    parser.add_argument("--source", type=pathlib.Path, default=SOURCE)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".venv" / "bin" / "python3")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--details", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    for path, what in ((options.source, "the source of llama.cpp (scripts/compare-peers)"),
                       (options.python, "Python packages (scripts/python-packages peer)"),
                       (options.nib, "nib")):
        if not path.exists():
            print(f"skipped: no {what}")
            return SKIPPED
    expected = read_list()
    files = options.files or sorted({name.split("::")[0] for name in expected})
    verdicts = run_tests(options.source, options.python, options.nib.resolve(), files,
                         "short" if options.details else "line")
    bad = 0
    for name, verdict in sorted(verdicts.items()):
        wanted, why = expected.get(name, ("unknown", ""))
        if verdict == "skipped":
            continue
        good = verdict == "passed"
        if wanted == "unknown":
            print(f"not in the list: {name} {verdict}")
        elif wanted == "pass" and not good:
            bad += 1
            print(f"should pass: {name} {verdict}")
        elif wanted == "fail" and good:
            print(f"passes now: {name} ({why})")
    if options.write:
        with LIST.open("a") as out:
            for name, verdict in verdicts.items():
                if name not in expected and verdict != "skipped":
                    out.write(f"{name} {'pass' if verdict == 'passed' else 'fail'}\n")
    count = sum(v == "passed" for v in verdicts.values())
    print(f"{count} of {len(verdicts)} passed, {bad} should have passed and did not")
    return 1 if bad or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
