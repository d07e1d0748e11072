#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The examples run against `nib serve` with the default model, and say what they should:

    examples_test.py NIB curl|openai

Ends with 77, the code for skipped, where the server, the model or the package is missing.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
import nib_server  # noqa: E402

CURL = [  # of each part of the output
    ("ready", r'"status"\s*:\s*"ok"'),
    ("models", r'"object"\s*:\s*"list"'),
    ("A chat", r'"finish_reason"\s*:\s*"(stop|length)"'),
    ("stream", r'(?s)^data: \{.*"usage"\s*:\s*\{.*^data: \[DONE\]'),
    ("log-probabilities", r'" Paris"'),
    ("other form", r'"stop_type"\s*:\s*"limit"'),
    ("tokens and back", r'"tokens"\s*:\s*\[\d+(,\s*\d+)+\].*"content"'),
    ("model sees", r"<\|im_start\|>user\\nGood morning<\|im_end\|>"),
    ("Embeddings", r'"embedding"\s*:\s*\[-?\d'),
    ("busy", r"llamacpp:\w+ [\d.]+"),
]
OPENAI = [
    r"model: \S+", r"chat: \w.*", r"tokens: [1-9]\d* \+ [1-9]\d*", r"stream: \w",
    r"streamed tokens: ([2-9]|1\d|2[0-4])$", r"choice 0: '.+', the first token '.+' had -?\d",
    r"choice 1: '.+'", r"completion:  Paris", r"embeddings: 576 numbers, similarity 0\.[1-9]\d+",
    r"refused: .*messages",
]


def output_of(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if result.returncode:
        sys.exit(f"{command[0]} ended with {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def expect(pattern, text):
    if not re.search(pattern, text, re.M):
        sys.exit(f"expected {pattern}, got:\n{text}")


def curl(base):
    parts = output_of([ROOT / "examples" / "curl.sh", base]).split("\n== ")[1:]
    if len(parts) != len(CURL):
        sys.exit(f"expected {len(CURL)} parts, got {len(parts)}")
    for part, (title, pattern) in zip(parts, CURL):
        expect(title, part.split("\n")[0])
        expect(pattern, part)
    for line in parts[3].split("\n"):
        if line.startswith("data: {"):
            json.loads(line[6:])


def python_with_openai():
    for python in (ROOT / ".venv" / "bin" / "python3", pathlib.Path(sys.executable)):
        if python.exists() and not subprocess.run([python, "-c", "import openai"], check=False,
                                                  capture_output=True).returncode:
            return python
    return None


def main():
    nib, what = sys.argv[1:]
    missing = nib_server.why_not(nib)
    python = python_with_openai() if what == "openai" else sys.executable
    if not missing and not python:
        missing = "no openai package (scripts/python-packages openai)"
    if missing:
        print("skipped: " + missing)
        return nib_server.SKIPPED
    with nib_server.NibServer(nib, "-c", "2048") as server:
        if what == "curl":
            curl(server.base)
        else:
            text = output_of([python, ROOT / "examples" / "openai_client.py", server.base])
            for pattern in OPENAI:
                expect(pattern, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
