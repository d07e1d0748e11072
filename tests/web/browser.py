# SPDX-License-Identifier: MIT
"""Headless Chromium over its DevTools protocol, with the standard library alone.

Browser starts the program with a profile of its own and speaks over one websocket to one page;
calls are made one at a time, what the page logs is collected in .complaints.
"""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_program():
    return os.environ.get("NIB_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)


class WebSocket:
    """A client of one connection: text frames out, whole messages in."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                             "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.receive()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"no websocket: {head[:80]}")

    def receive(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the browser closed the connection")
        return data

    def take(self, count):
        while len(self.rest) < count:
            self.rest += self.receive()
        data, self.rest = self.rest[:count], self.rest[count:]
        return data

    def send(self, text, opcode=1):
        data = text.encode() if isinstance(text, str) else text
        mask = os.urandom(4)
        size = len(data)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", size)
        self.socket.sendall(head + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(data)))

    def message(self):
        parts = b""
        while True:
            first, size = self.take(2)
            size &= 0x7f
            if size == 126:
                size = struct.unpack(">H", self.take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.take(8))[0]
            data = self.take(size)
            if first & 0x0f == 9:
                self.send(data, 10)
                continue
            if first & 0x0f == 8:
                raise ConnectionError("the browser said good-bye")
            parts += data
            if first & 0x80:
                return parts.decode()


class Browser:
    def __init__(self, program, width=1280, height=820):
        self.complaints = []
        self.number = 0
        self.profile = tempfile.TemporaryDirectory(prefix="nib-web-")
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             f"--window-size={width},{height}", "--remote-debugging-port=0",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = self.wait_for_port()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/json/list")
        page = next(p for p in json.load(connection.getresponse()) if p["type"] == "page")
        self.socket = WebSocket(port, page["webSocketDebuggerUrl"].split(str(port), 1)[1])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def wait_for_port(self):
        file = pathlib.Path(self.profile.name, "DevToolsActivePort")
        for _ in range(300):
            with contextlib.suppress(OSError, IndexError, ValueError):
                return int(file.read_text().split()[0])
            if self.process.poll() is not None:
                raise RuntimeError(f"the browser ended with {self.process.returncode}")
            time.sleep(0.1)
        raise RuntimeError("the browser does not listen")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self.profile.cleanup()

    def note(self, event):
        kind, params = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.message())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def run(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(expression)
            if value:
                return value
            time.sleep(0.03)
        raise AssertionError(f"never became true: {expression}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, modifiers=0):
        codes = {"Enter": 13, "Escape": 27, "ArrowUp": 38, "k": 75}
        extra = {"text": "\r"} if name == "Enter" and not modifiers else {}
        common = {"key": name, "windowsVirtualKeyCode": codes[name], "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **extra)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=mobile)

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
