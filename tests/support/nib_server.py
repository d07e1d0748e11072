# SPDX-License-Identifier: MIT
"""`nib serve` for tests in Python: the default model on a free port, ended with the `with` block."""
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

SKIPPED = 77  # what a test ends with that could not run


def default_model():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache, "nib", "models", "SmolLM2-135M-Instruct.Q4_1.gguf")


def why_not(nib):
    """What is missing to serve the default model, or nothing."""
    if not default_model().is_file():
        return "no default model"
    helped = subprocess.run([nib, "serve", "--help"], capture_output=True, check=False)
    return "built without the server" if helped.returncode else ""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class NibServer:
    def __init__(self, nib, *flags):
        self.port = free_port()
        self.base = f"http://127.0.0.1:{self.port}"
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [nib, "serve", "-m", default_model(), "--port", str(self.port), *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log)

    def __enter__(self):
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.base + "/health", timeout=5):
                    return self
            except OSError:  # also the 503 of a server that loads
                time.sleep(0.05)
        self.__exit__()
        self.log.seek(0)
        raise RuntimeError("nib serve did not get ready: " + self.log.read().decode())

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
