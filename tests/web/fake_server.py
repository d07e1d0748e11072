#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server with the routes that the web page uses and no model behind them.

    fake_server.py PAGE.html PORT

It prints its port when it listens. It sends the page under the policy that the page asks for, and
answers a chat by what the last message says: "echo TEXT" gives TEXT back, "endless" writes until
the client is gone, "key" asks for a key, "broken" ends in the middle. Whatever was asked last is at
/last, how many answers were cut by the client at /gone.
"""
import http.server
import json
import socketserver
import sys
import time

POLICY = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
          "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
          "frame-ancestors 'none'")
METRICS = """# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
llamacpp:tokens_predicted_total 4096
nib:kv_blocks_used 96
nib:kv_blocks_total 256
"""
state = {"last": None, "gone": 0, "page": ""}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def give(self, status, kind, body):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(data)

    def give_json(self, value, status=200):
        self.give(status, "application/json", json.dumps(value))

    def do_GET(self):
        answers = {
            "/health": {"status": "ok"},
            "/v1/models": {"object": "list", "data": [{"id": "tiny-model", "object": "model"}]},
            "/props": {"default_generation_settings": {"n_ctx": 8192, "params": {
                "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "n_predict": -1,
                "repeat_penalty": 1.0}}},
            "/slots": [{"id": i, "is_processing": i < 2} for i in range(8)],
            "/last": state["last"], "/gone": state["gone"]}
        if self.path == "/":
            with open(state["page"], encoding="utf-8") as page:
                self.give(200, "text/html; charset=utf-8", page.read())
        elif self.path == "/metrics":
            self.give(200, "text/plain", METRICS)
        elif self.path in answers:
            self.give_json(answers[self.path])
        else:
            self.give_json({"error": {"message": "no such page"}}, 404)

    def event(self, value):
        data = ("data: " + (value if isinstance(value, str) else json.dumps(value)) + "\n\n").encode()
        for part in (data[:7], data[7:]):  # a reader may not rely on whole events
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def piece(self, text, reason=None):
        delta = {"content": text} if text else {}
        self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state["last"] = body
        text = body["messages"][-1]["content"]
        if text.startswith("key") and self.headers.get("Authorization") != "Bearer right":
            self.give_json({"error": {"message": "a key is needed"}}, 401)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.stream(text)
        except (BrokenPipeError, ConnectionResetError):
            state["gone"] += 1
            self.close_connection = True

    def stream(self, text):
        self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
        while text.startswith("endless"):
            self.piece("on and ")
            time.sleep(0.02)
        answer = text[5:] if text.startswith("echo ") else "Good day to you."
        size = max(4, len(answer) // 24)
        for at in range(0, len(answer), size):
            self.piece(answer[at:at + size])
            time.sleep(0.02)  # apart, so that there is a speed to show
        if text.startswith("broken"):
            self.close_connection = True
            return
        self.piece("", "stop")
        self.event({"choices": [], "usage": {
            "prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27,
            "prompt_tokens_details": {"cached_tokens": 12}}})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


if __name__ == "__main__":
    state["page"] = sys.argv[1]
    server = Server(("127.0.0.1", int(sys.argv[2])), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
