#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Looks at the source tree for what a compiler does not check, one line per finding.

    scripts/tidy.py             include arrows, library doors, registration, banned calls, ASCII,
                                licence line, line and file length
    scripts/tidy.py --headers   every header compiles alone
    scripts/tidy.py --sizes     the ten longest files and functions

Ends with 1 if anything was found. CONTRIBUTING.md says what the rules are for.
"""
import concurrent.futures
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("ggml-like", "backends", "models", "src", "tools", "tests")
SUFFIXES = {".h", ".cpp", ".inl", ".cu", ".cuh", ".comp"}
MOST_COLUMNS = 100
MOST_LINES = 700

# Who may include what of ours: the first row whose left side matches a file decides. An entry is a
# folder (with the final slash) or one file; a leading ! takes something out again.
ARROWS = [
    (r"ggml-like/", ["ggml-like/"]),
    (r"backends/(?P<backend>\w+)/", ["ggml-like/", "backends/{backend}/"]),
    (r"models/", ["src/arch.h", "src/layers.h", "ggml-like/graph.h"]),
    (r"src/(cli|server)/", ["src/", "!src/kv/", "!src/schedule/", "!src/arch.h", "!src/layers.h",
                            "ggml-like/result.h", "ggml-like/quant.h"]),
    (r"src/main\.cpp", ["src/"]),
    (r"src/", ["src/", "ggml-like/", "!src/cli/", "!src/server/"]),
    (r"tools/doctor\.cpp", ["src/", "ggml-like/", "backends/cpu/cpu_info.h",
                               "backends/cpu/kernels.h"]),
    (r"tools/quantize\.cpp", ["src/", "ggml-like/", "!src/server/", "backends/cpu/cpu_info.h"]),
    (r"tools/", ["tools/", "src/", "ggml-like/", "!src/server/"]),
    (r"tests/", [""]),
]

# A library's header and the only files that may include it.
DOORS = [
    (r"nlohmann/", r"src/json/json\.h"),
    (r"pcre2\.h", r"src/tokenizer/regex\.cpp"),
    (r"xxhash\.h", r"src/kv/hash\.cpp"),
    (r"utf8proc\.h", r"(src|tests)/(tokenizer|chat)/\w+\.cpp"),
    (r"(editline/)?(readline|histedit)\.h", r"src/cli/line_editor\.cpp"),
    (r"CLI/", r"src/options\.cpp"),
    (r"(third_party/httplib/)?httplib\.h", r"src/server/http\.cpp"),
    (r"openssl/", r"src/server/tls\.cpp"),
    (r"g(test|mock)/", r"tests/.*"),
]

# Only programs print, read the environment and end the process; nobody throws or aborts.
PROGRAMS = re.compile(r"(src/main\.cpp|src/options\w*\.cpp|src/cli/|src/server/|tools/|tests/)")
BANNED_EVERYWHERE = [
    (r"(?<![\w.>])(std::)?(abort|terminate)\s*\(", "ends the process"),
    (r"\bthrow\b", "throws: errors are values"),
    (r"\b(rand|srand|strcpy|strcat|sprintf|gets|atoi|atof|strtok)\s*\(", "an unsafe C call"),
]
BANNED_IN_LIBRARIES = [
    (r"(?<![\w.>])(std::)?(quick_exit|_?exit|_Exit)\s*\(", "ends the process"),
    (r"(?<!\w)(std::)?(printf|puts|putchar)\s*\(", "prints: only programs do"),
    (r"\bstd::(cout|cerr|clog)\b", "prints: only programs do"),
    (r"\bfprintf\s*\(\s*(stdout|stderr)\b", "prints: only programs do"),
    (r"(?<!\w)(std::)?(secure_)?getenv\s*\(", "reads the environment: only programs do"),
    (r"\b(fork|vfork|popen|posix_spawn\w*|system)\s*\(", "starts a process"),
]
ASSERT_HOME = "ggml-like/result.h"  # its NIB_ASSERT may print and abort


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path.relative_to(ROOT).as_posix(), path


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


CODE_NOISE = re.compile(
    r'R"(?P<d>[^\s()\\]{0,16})\(.*?\)(?P=d)"'   # raw strings
    r'|//[^\n]*|/\*.*?\*/'                      # comments
    r'|"(?:\\.|[^"\\\n])*"'                     # strings
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",    # characters, not digit separators
    re.S)


def code_only(text):
    """The text with comments and literals blanked; lines and columns stay."""
    return CODE_NOISE.sub(blank, text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def allowed_by(rules, target):
    verdict = False
    for rule in rules:
        if rule.startswith("!"):
            verdict = verdict and not target.startswith(rule[1:])
        elif target == rule or (target.startswith(rule) and (rule.endswith("/") or not rule)):
            verdict = True
    return verdict


def check_includes(name, text):
    row = next(((m, rules) for pattern, rules in ARROWS if (m := re.match(pattern, name))), None)
    for found in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.M):
        target = found.group(2)
        for library, door in DOORS:
            if re.match(library, target) and not re.fullmatch(door, name):
                yield line_of(text, found.start()), f"includes {target}, whose door is {door}"
        if found.group(1) == "<" or row is None:
            continue
        match, rules = row
        rules = [rule.format(**match.groupdict()) for rule in rules]
        if any(re.match(library, target) for library, _ in DOORS):
            continue
        if not allowed_by(rules, target):
            yield line_of(text, found.start()), f"may not include {target}"
        elif not (ROOT / target).is_file():
            yield line_of(text, found.start()), f"includes {target}, which is not there"


def check_calls(name, code):
    rules = [] if name.startswith("tests/") else list(BANNED_EVERYWHERE)
    if not PROGRAMS.match(name):
        rules += BANNED_IN_LIBRARIES
    if name == ASSERT_HOME:
        rules = []
    for pattern, why in rules:
        for found in re.finditer(pattern, code):
            yield line_of(code, found.start()), f"{found.group(0).strip()} {why}"


def check_text(name, text):
    if not text.startswith("// SPDX-License-Identifier: MIT\n"):
        yield 1, "the first line is not the SPDX line"
    lines = text.split("\n")
    table = False  # tables stand between marks for clang-format and may be wide
    for number, line in enumerate(lines, 1):
        if "// clang-format o" in line:
            table = line.rstrip().endswith("off")
        if not line.isascii():
            yield number, "is not ASCII"
        if len(line) > MOST_COLUMNS and not table:
            yield number, f"has {len(line)} columns, more than {MOST_COLUMNS}"
        if "\t" in line or line != line.rstrip():
            yield number, "has a tab or a blank at its end"
    if len(lines) > MOST_LINES:
        yield len(lines), f"the file has more than {MOST_LINES} lines"
    if name.endswith(".h") and "#pragma once" not in text:
        yield 1, "a header without #pragma once"


def registries():
    """(prefix, files) of every nib_registry call in the CMake files."""
    for cmake in [ROOT / "CMakeLists.txt", *sorted(ROOT.glob("backends/*/CMakeLists.txt"))]:
        text = re.sub(r"#[^\n]*", "", cmake.read_text())
        globs = {m.group(1): m.group(2).split() for m in
                 re.finditer(r"file\(GLOB\s+(\w+)\s+CONFIGURE_DEPENDS\s+([^)]*)\)", text)}
        for call in re.finditer(r"nib_registry\(([^)]*)\)", text):
            _, _, kind, _, prefix, *lists = call.group(1).split()
            patterns = [p for item in lists for p in globs.get(item.strip("${}"), [])]
            yield kind, prefix, [f for p in patterns for f in sorted(cmake.parent.glob(p))]


def check_registration(texts):
    for kind, prefix, files in registries():
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            found = re.findall(r"^extern const ([\w:]+) (\w+)", texts[name][1], re.M)
            found = [constant for of, constant in found
                     if of.split("::")[-1] == kind.split("::")[-1]]
            expected = f"{prefix}_{path.stem}"
            if found != [expected]:
                yield name, 1, f"should define exactly {expected}, defines {found or 'nothing'}"


def check_tree():
    texts = {}
    findings = []
    for name, path in sources():
        text = path.read_text(errors="surrogateescape")
        code = code_only(text)
        texts[name] = (text, code)
        for line, what in [*check_text(name, text), *check_includes(name, text),
                           *check_calls(name, code)]:
            findings.append((name, line, what))
    findings += check_registration(texts)
    return findings


def compile_alone(compiler, name):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-I", ".",
               "-x", "c++"]
    if re.match(r"backends/cpu/(simd|isa|kernels)/", name) and platform.machine() == "x86_64":
        command += ["-march=x86-64-v4", "-mavx512vnni", "-Wno-psabi"]
    # Included from a file of its own: a header as main file would get warnings about its pragma.
    result = subprocess.run([*command, "-"], input=f'#include "{name}"\n', cwd=ROOT,
                            capture_output=True, text=True, check=False)
    first = next((line for line in result.stderr.splitlines()
                  if re.search(r"(warning|error): ", line)), "")
    return [(name, 1, f"does not compile alone: {first}")] if result.returncode or first else []


def check_headers():
    compiler = os.environ.get("CXX", "g++")
    headers = [name for name, _ in sources() if name.endswith(".h")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [f for found in pool.map(lambda h: compile_alone(compiler, h), headers)
                for f in found]


NOT_A_FUNCTION = re.compile(
    r"\s*(if|for|while|switch|else|do|return|namespace|struct|class|enum|union|extern|case|try)\b")


def functions(name, code):
    """(lines, name:line, first words) by indentation: the tree is formatted by clang-format."""
    lines = code.split("\n")
    for end, line in enumerate(lines):
        if not re.fullmatch(r"\s*\}[;,)]*\s*", line):
            continue
        indent = len(line) - len(line.lstrip())
        for start in range(end - 1, -1, -1):
            before = lines[start]
            if before.strip() and len(before) - len(before.lstrip()) <= indent:
                break
        else:
            continue
        if "(" in before and not NOT_A_FUNCTION.match(before) and "=" not in before.split("(")[0]:
            yield end - start + 1, f"{name}:{start + 1}", before.strip()


def print_sizes():
    files = []
    found = []
    for name, path in sources():
        text = path.read_text(errors="surrogateescape")
        files.append((text.count("\n"), name))
        if not name.startswith("tests/"):
            found += functions(name, code_only(text))
    print("longest files")
    for count, name in sorted(files, reverse=True)[:10]:
        print(f"{count:6} {name}")
    print("longest functions")
    for count, name, words in sorted(found, reverse=True)[:10]:
        print(f"{count:6} {name}  {words[:70]}")


def main(arguments):
    if arguments == ["--sizes"]:
        print_sizes()
        return 0
    if arguments not in ([], ["--headers"]):
        print("usage: scripts/tidy.py [--headers|--sizes]", file=sys.stderr)
        return 2
    findings = check_headers() if arguments else check_tree()
    for name, line, what in findings:
        print(f"{name}:{line}: {what}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
