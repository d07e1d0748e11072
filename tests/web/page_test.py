#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The web page in headless Chromium, as people use it.

    page_test.py --out FOLDER --page PAGE.html    every check, against fake_server.py
    page_test.py --out FOLDER --nib NIB           one conversation with `nib serve`

Screenshots stay in FOLDER. Ends with 77, the code for skipped, where there is no Chromium, and with
--nib where the default model or the server is not there.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import browser as browser_module  # noqa: E402
import nib_server  # noqa: E402

MARKDOWN = """echo # Notes on *ink*

A nib holds **ink** by capillary action; see [the page](https://example.org/ink?a=1&b=2) or https://example.org/x.
Not a link: [click](javascript:alert(1)) and `inline code <b>`.

1. First
   - nested *item*
   - `code` in an item
2. Second

> A quoted line
> with a second one

| Type | Bits | Use |
|:-----|-----:|:---:|
| q4_1 | 5.0 | small |
| a\\|b | `x|y` | <i>none</i> |

```python
def greet(name: str) -> str:
    return f"Good day, {name} <script>"
```

Ends with ~~struck~~ __strong__ snake_case_name, 2 * 3 * 4 and a lone ` tick."""

HOSTILE = ("echo <script>window.hurt = 1</script><img src=x onerror=\"window.hurt = 2\">\n\n"
           "[a](javascript:window.hurt=3) [b](data:text/html,x) ![c](https://example.org/c.png)\n\n"
           "```html\n<script>window.hurt = 4</script>\n```\n\n"
           "| <img src=x onerror=window.hurt=5> | b |\n|---|---|\n| <svg onload=window.hurt=6> | y |")


def last_message(role):
    return f"[...document.querySelectorAll('.message.{role}')].at(-1)"


def body_of(role):
    return f"{last_message(role)}?.querySelector('.body')?.textContent"


def done():
    return "document.getElementById('send').hidden === false"


def contrast(one, other):
    """Of two #rrggbb, as WCAG 2 defines it."""
    def luminance(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


class Checks:
    def __init__(self, web, out, base):
        self.web, self.out, self.base = web, out, base

    def ask(self, text, wait=True):
        self.web.run("document.getElementById('input').focus()")
        self.web.type(text)
        self.web.key("Enter")
        if wait:
            self.web.wait(f"({body_of('assistant')} ?? '').length > 0 && {done()}")

    def get(self, path):
        with urllib.request.urlopen(self.base + path) as answer:
            return json.load(answer)

    def expect(self, what, expected, got):
        if expected != got:
            raise AssertionError(f"{what}: expected {expected!r}, got {got!r}")

    def shot(self, name):
        time.sleep(0.3)  # transitions
        self.web.shot(self.out / f"{name}.png")

    def start_page(self):
        self.web.wait("document.getElementById('fact-model').textContent === 'tiny-model'")
        self.shot("empty")

    def streaming(self):
        self.ask("Good morning")
        self.expect("answer", "Good day to you.", self.web.run(body_of("assistant")))
        stats = self.web.run(last_message("assistant") + ".querySelector('.stats').textContent")
        for part in ("7 tokens", "tokens/s", "first after", "prompt 20 (12 cached)"):
            self.expect(f"{part} in {stats}", True, part in stats)
        asked = self.get("/last")
        self.expect("stream", True, asked["stream"])
        self.expect("usage", {"include_usage": True}, asked["stream_options"])
        self.expect("messages", [{"role": "user", "content": "Good morning"}], asked["messages"])
        kept = self.web.run("Object.keys(localStorage).filter(k => k.startsWith('nib.chat.')).length")
        self.expect("kept conversations", 1, kept)

    def stopping(self):
        self.ask("endless", wait=False)
        self.web.wait(f"({body_of('assistant')} ?? '').includes('on and on')")
        self.expect("stop button", False, self.web.run("document.getElementById('stop').hidden"))
        before = self.get("/gone")
        self.web.key("Escape")
        self.web.wait(done())
        for _ in range(100):
            if self.get("/gone") == before + 1:
                break
            time.sleep(0.02)
        self.expect("cut answers", before + 1, self.get("/gone"))
        stats = self.web.run(last_message("assistant") + ".querySelector('.stats').textContent")
        self.expect("stopped in " + stats, True, "stopped" in stats)
        kept = self.web.run(body_of("assistant"))
        self.web.run(last_message("assistant") + ".querySelector('[title=\"Go on writing\"]').click()")
        self.web.wait(f"{body_of('assistant')} === {json.dumps(kept + 'Good day to you.')} && {done()}")
        asked = self.get("/last")
        self.expect("extends", True, asked["continue_final_message"])
        self.expect("what", {"role": "assistant", "content": kept}, asked["messages"][-1])

    def editing(self):
        self.web.key("k", modifiers=2)
        self.ask("echo first")
        self.ask("echo second")
        self.web.run("document.getElementById('input').focus()")
        self.web.key("ArrowUp")
        self.web.wait("document.activeElement.matches('.editing textarea')")
        self.web.run("document.activeElement.select()")
        self.web.type("echo third")
        self.web.key("Enter")
        self.web.wait(f"{body_of('assistant')} === 'third' && {done()}")
        contents = [m["content"] for m in self.get("/last")["messages"]]
        self.expect("sent after the edit", ["echo first", "first", "echo third"], contents)
        self.web.run(last_message("assistant") + ".querySelector('[title=\"Write another answer\"]').click()")
        self.web.wait(f"{body_of('assistant')} === 'third' && {done()}")
        self.expect("articles", 4, self.web.run("document.querySelectorAll('.message').length"))

    def markdown(self):
        self.web.key("k", modifiers=2)
        self.ask(MARKDOWN)
        counts = {"h1 em": 1, "strong": 2, "a[href^=https]": 2, "ol > li > ul > li": 2, "del": 1,
                  "blockquote p": 1, "table td": 6, ".block code": 1, "li": 4, "p > code": 1}
        for selector, count in counts.items():
            got = self.web.run(last_message("assistant") + f".querySelectorAll({json.dumps('.md ' + selector)}).length")
            self.expect(selector, count, got)
        rels = self.web.run(f"[...{last_message('assistant')}.querySelectorAll('a')].map(a => a.rel + a.target)")
        self.expect("links", ["noopener noreferrer_blank"] * 2, rels)
        text = self.web.run(body_of("assistant"))
        for part in ("2 * 3 * 4", "snake_case_name", "lone ` tick", "a|b", "x|y", "<i>none</i>",
                     "[click](javascript:alert(1))", "return f\"Good day, {name} <script>\""):
            self.expect(f"{part!r} in the text", True, part in text)
        self.shot("markdown-light")
        self.web.scheme("dark")
        self.shot("markdown-dark")

    def hostile(self):
        self.web.key("k", modifiers=2)
        self.ask(HOSTILE)
        for selector in ("script", "img", "svg[onload]", "a[href^=javascript]", "a[href^=data]"):
            got = self.web.run(f"{last_message('assistant')}.querySelectorAll('.body {selector}').length")
            self.expect(selector, 0, got)
        self.expect("scripts ran", None, self.web.run("window.hurt ?? null"))
        self.expect("user's text", HOSTILE, self.web.run(body_of("user")))

    def long_text(self):
        """Texts that make careless readers slow: each is rendered within the limit."""
        for name, text in {"stars": "*a " * 20000, "brackets": "[" * 60000, "ticks": "` `` " * 12000,
                           "quotes": ">" * 60000, "lists": "\n".join(" " * min(i, 400) + "- x" for i in range(3000)),
                           "links": "[a](http://x " * 6000, "bars": "|" * 60000 + "\n" + "|-" * 30000}.items():
            ms = self.web.run("(() => { const t = performance.now();"
                              f"new MarkdownView(document.createElement('div')).update({json.dumps(text)});"
                              "return performance.now() - t; })()")
            if ms > 4000:
                raise AssertionError(f"{name}: took {ms:.0f} ms")

    def themes(self):
        colour = "getComputedStyle(document.body).backgroundColor"
        self.web.scheme("dark")
        dark = self.web.run(colour)
        self.web.scheme("light")
        light = self.web.run(colour)
        self.expect("two colours", True, dark != light)
        for _ in range(2):  # automatic, light, dark
            self.web.run("document.getElementById('theme').click()")
        self.expect("chosen dark", dark, self.web.run(colour))
        self.web.run("document.getElementById('theme').click()")
        self.expect("automatic again", light, self.web.run(colour))

    def settings(self):
        self.web.run("document.getElementById('panel-open').click()")
        self.web.wait("document.getElementById('gauges').textContent.includes('96 of 256')")
        self.web.wait("document.querySelectorAll('#slots .on').length === 2")
        self.expect("default", "0.8", self.web.run("document.getElementById('set-temperature').placeholder"))
        self.web.run("document.getElementById('set-temperature').focus()")
        self.web.type("0.5")
        self.web.run("document.getElementById('system').focus()")
        self.web.type("Be short.")
        self.shot("settings")
        self.ask("echo with settings")
        asked = self.get("/last")
        self.expect("temperature", 0.5, asked["temperature"])
        self.expect("system", {"role": "system", "content": "Be short."}, asked["messages"][0])

    def key_wanted(self):
        self.web.key("k", modifiers=2)
        self.ask("key please", wait=False)
        self.web.wait("document.activeElement.id === 'key'")
        self.web.type("right")
        self.web.run("document.getElementById('key').blur()")
        self.web.run(last_message("assistant") + ".querySelector('[title=\"Write another answer\"]').click()")
        self.web.wait(f"{body_of('assistant')} === 'Good day to you.' && {done()}")
        self.expect("key in sessionStorage", "right", self.web.run("sessionStorage.getItem('nib.key')"))
        self.web.run("document.getElementById('panel-close').click()")

    def broken(self):
        self.web.key("k", modifiers=2)
        self.ask("broken")
        error = self.web.run(last_message("assistant") + ".querySelector('.error').textContent")
        self.expect("a message about it", True, error.startswith("No full answer"))

    def keeping(self):
        titles = "[...document.querySelectorAll('#chats .open')].map(b => b.textContent)"
        before = self.web.run(titles)
        self.web.run("window.old_page = true; location.reload()")
        self.web.wait(f"!window.old_page && document.readyState === 'complete' && {titles}.length === {len(before)}")
        self.expect("conversations after a reload", before, self.web.run(titles))
        self.web.run("document.querySelector('#chats .open').click()")
        self.web.run("(() => { const t = document.getElementById('title'); t.value = 'A name';"
                     " t.dispatchEvent(new Event('change')); })()")
        self.expect("renamed", "A name", self.web.run(titles)[0])
        self.web.run("document.querySelector('#chats .delete').click()")
        self.expect("deleted", len(before) - 1, len(self.web.run(titles)))
        self.web.run("document.querySelector('#notice .act').click()")
        self.expect("back", len(before), len(self.web.run(titles)))
        count = self.web.run(
            "import_chats(new File([JSON.stringify({format: 'nib-conversations', version: 1, chats: ["
            "{id: 'x1', title: 'From a file', messages: [{role: 'user', content: 'hi'}]},"
            "{id: 'x2', title: 1, messages: []}, {messages: [{role: 'tool'}]}]})], 'a.json'))"
            f".then(() => {titles}.length)")
        self.expect("with those of a file", len(before) + 1, count)

    def access(self):
        """Everything that can be used has a name, and text stands out from what is behind it."""
        nameless = self.web.run(
            "[...document.querySelectorAll('button, input, textarea, select, [role=img]')].filter(e =>"
            "!(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML)")
        self.expect("elements without a name", [], nameless)
        for scheme in ("light", "dark"):
            self.web.scheme(scheme)
            colours = self.web.run("Object.fromEntries(['page', 'side', 'raised', 'bubble', 'code', 'text', "
                                   "'soft', 'accent', 'on-accent', 'bad', 'bad-back'].map(n => [n, "
                                   "getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim()]))")
            pairs = [("text", "page"), ("text", "side"), ("text", "raised"), ("text", "bubble"),
                     ("text", "code"), ("soft", "page"), ("soft", "side"), ("soft", "code"),
                     ("accent", "page"), ("on-accent", "accent"), ("bad", "bad-back")]
            for front, back in pairs:
                ratio = contrast(colours[front], colours[back])
                if ratio < 4.5:
                    raise AssertionError(f"{scheme}: {front} on {back}: contrast {ratio:.2f}, expected 4.5")
        self.web.scheme("light")

    def phone(self):
        self.web.size(390, 780, mobile=True)
        self.web.run("[...document.querySelectorAll('#chats .open')].find(b => b.textContent.startsWith('echo # Notes')).click()")
        self.expect("nothing is wider than the screen", True,
                    self.web.run("document.documentElement.scrollWidth <= innerWidth"))
        self.shot("phone")
        self.web.run("document.getElementById('side-open').click()")
        self.shot("phone-list")
        self.web.run("document.getElementById('veil').click()")

    def run_all(self):
        for check in (self.start_page, self.streaming, self.stopping, self.editing, self.markdown,
                      self.hostile, self.long_text, self.themes, self.settings, self.key_wanted,
                      self.broken, self.keeping, self.access, self.phone):
            check()
            print(f"ok: {check.__name__}", flush=True)
        allowed = ("401",)
        bad = [c for c in self.web.complaints if not any(a in c for a in allowed)
               and "ERR_INCOMPLETE_CHUNKED" not in c]
        self.expect("complaints of the browser", [], bad)


def with_fake(program, page, out):
    server = subprocess.Popen([sys.executable, HERE / "fake_server.py", page, "0"],
                              stdout=subprocess.PIPE, text=True)
    web = None
    try:
        base = f"http://127.0.0.1:{int(server.stdout.readline())}"
        web = browser_module.Browser(program)
        web.open(base + "/")
        Checks(web, out, base).run_all()
    finally:
        if web:
            web.close()
        server.terminate()
        server.wait()


def with_nib(program, nib, out):
    """One conversation with the real server."""
    with nib_server.NibServer(nib, "-c", "2048") as server:
        web = browser_module.Browser(program)
        try:
            web.open(server.base + "/")
            web.wait("document.getElementById('fact-context').textContent.includes('2048')")
            checks = Checks(web, out, server.base)
            web.run("write_store('nib.samplers', {temperature: 0, max_tokens: 48})")
            checks.ask("Write one sentence about the sea.")
            stats = web.run(last_message("assistant") + ".querySelector('.stats').textContent")
            checks.expect("no error", 0, web.run("document.querySelectorAll('.error').length"))
            checks.expect("tokens/s in " + stats, True, "tokens/s" in stats)
            web.run("document.getElementById('panel-open').click()")
            web.wait("document.getElementById('gauges').textContent.includes('KV blocks')")
            checks.shot("nib-serve")
            checks.expect("complaints of the browser", [], web.complaints)
            print("ok: nib serve: " + stats)
        finally:
            web.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True, type=pathlib.Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--page")
    what.add_argument("--nib")
    options = parser.parse_args()
    program = browser_module.find_program()
    if not program:
        print("skipped: no chromium")
        return nib_server.SKIPPED
    options.out.mkdir(parents=True, exist_ok=True)
    if options.page:
        with_fake(program, options.page, options.out)
        return 0
    missing = nib_server.why_not(options.nib)
    if missing:
        print("skipped: " + missing)
        return nib_server.SKIPPED
    with_nib(program, options.nib, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
