#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The engine inside a Python program, through libnib.so; nothing but the standard library is needed.

    examples/embed.py model.gguf "Once upon a time"
    examples/embed.py model.gguf "Once upon a time" -n 500 --stop-after 40    # cancels after 40 tokens

The library is build/release/libnib.so of this checkout, or the installed one, or --library FILE.
"""
import argparse
import ctypes as c
import ctypes.util
import pathlib
import sys


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("message", c.c_char * 512)]


class EngineOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("model_path", c.c_char_p), ("context", c.c_int32),
                ("parallel", c.c_int32), ("threads", c.c_int32), ("kv_bytes", c.c_uint64)]


class Request(c.Structure):
    _fields_ = [("size", c.c_size_t), ("prompt", c.POINTER(c.c_int32)), ("prompt_n", c.c_size_t),
                ("max_tokens", c.c_int32), ("temperature", c.c_float), ("top_k", c.c_int32),
                ("top_p", c.c_float), ("min_p", c.c_float), ("seed", c.c_uint64),
                ("stop", c.POINTER(c.c_char_p)), ("stop_n", c.c_size_t), ("priority", c.c_int32),
                ("ignore_eos", c.c_int32)]


class Event(c.Structure):
    _fields_ = [("text", c.c_void_p), ("text_n", c.c_size_t), ("tokens", c.POINTER(c.c_int32)),
                ("tokens_n", c.c_size_t), ("done", c.c_int32), ("finish", c.c_int32),
                ("error", Error)]


FINISH = ["none", "stop", "length", "cancelled"]


class NibError(Exception):
    pass


def load_library(path):
    lib = c.CDLL(path)
    for name, result, arguments in [
            ("nib_engine_open", c.c_void_p, [c.POINTER(EngineOptions), c.POINTER(Error)]),
            ("nib_engine_close", None, [c.c_void_p]),
            ("nib_engine_context", c.c_int32, [c.c_void_p]),
            ("nib_tokenize", c.c_size_t, [c.c_void_p, c.c_char_p, c.c_size_t, c.c_int, c.c_int,
                                          c.POINTER(c.c_int32), c.c_size_t]),
            ("nib_submit", c.c_void_p, [c.c_void_p, c.POINTER(Request), c.POINTER(Error)]),
            ("nib_stream_next", c.c_int, [c.c_void_p, c.c_int32, c.POINTER(Event)]),
            ("nib_stream_cancel", None, [c.c_void_p]),
            ("nib_stream_close", None, [c.c_void_p])]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class Engine:
    """A model that is ready to answer. Its functions may be called from any thread."""

    def __init__(self, lib, model, threads=0):
        self._lib, error = lib, Error()
        options = EngineOptions(size=c.sizeof(EngineOptions), model_path=model.encode(),
                                threads=threads)
        self._handle = lib.nib_engine_open(options, error)
        if not self._handle:
            raise NibError(error.message.decode(errors="replace"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lib.nib_engine_close(self._handle)

    def tokenize(self, text):
        data = text.encode()
        tokens = (c.c_int32 * (len(data) + 8))()
        n = self._lib.nib_tokenize(self._handle, data, len(data), 1, 0, tokens, len(tokens))
        return tokens[:n]

    def submit(self, tokens, max_tokens, temperature=0.0, seed=0):
        error = Error()
        request = Request(size=c.sizeof(Request), prompt=(c.c_int32 * len(tokens))(*tokens),
                          prompt_n=len(tokens), max_tokens=max_tokens, temperature=temperature,
                          seed=seed)
        stream = self._lib.nib_submit(self._handle, request, error)
        if not stream:
            raise NibError(error.message.decode(errors="replace"))
        return Stream(self._lib, stream)


class Stream:
    """What a request gives: iterate over it once for pairs of (text, number of new tokens)."""

    def __init__(self, lib, handle):
        self._lib, self._handle, self.finish = lib, handle, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._lib.nib_stream_close(self._handle)

    def cancel(self):
        self._lib.nib_stream_cancel(self._handle)

    def __iter__(self):
        event = Event()
        while not event.done:
            if not self._lib.nib_stream_next(self._handle, 1000, event):
                continue  # nothing new within a second
            # The text lives until the next call, so it is copied here. It has whole characters.
            yield c.string_at(event.text, event.text_n).decode(), event.tokens_n
        self.finish = FINISH[event.finish]
        if event.error.status:
            raise NibError(event.error.message.decode(errors="replace"))


def find_library():
    built = pathlib.Path(__file__).resolve().parent.parent / "build/release/libnib.so"
    return str(built) if built.exists() else ctypes.util.find_library("nib") or "libnib.so.0"


def main():
    parser = argparse.ArgumentParser(description="continues a text with libnib.so")
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("-n", "--max-tokens", type=int, default=64)
    parser.add_argument("-t", "--threads", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, metavar="N", help="cancel after N tokens")
    parser.add_argument("--library", default=find_library())
    args = parser.parse_args()

    n = 0
    with Engine(load_library(args.library), args.model, args.threads) as engine:
        tokens = engine.tokenize(args.text)
        with engine.submit(tokens, args.max_tokens, args.temperature, args.seed) as stream:
            for text, n_new in stream:
                print(text, end="", flush=True)
                n += n_new
                if args.stop_after and n >= args.stop_after:
                    stream.cancel()
            print()
            print(f"{len(tokens)} tokens in, {n} out, finish: {stream.finish}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (NibError, OSError) as problem:
        sys.exit(f"error: {problem}")
