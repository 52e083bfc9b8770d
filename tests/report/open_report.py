"""Opens a report in a real browser and looks at what is on the page.

    open_report.py --render 'zero compare {runs} --output {report}'
    open_report.py --report runs/first/report.html
    open_report.py --make samples

The first makes sample runs, has them rendered (one run, then two side by side)
and checks both pages; the second checks a page that is there; the third only
makes the runs. Needs Chromium and nothing of Python but its standard library.
Exits with 77, which ctest counts as skipped, if there is no Chromium.
"""

import argparse
import base64
import fcntl
import hashlib
import json
import math
import os
import pathlib
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 60  # seconds, for a machine that is busy with other tests
HOSTILE = "<script>document.title = 'taken'</script>"
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
# Of a run of text that has everything.
ONE_RUN = {
    "headings": ["Learning", "Speed", "Memory",
                 "What the model writes", "Configuration", "Facts"],
    "charts": ["Loss", "Perplexity in evaluation", "Gradient norm",
               "Learning rate", "Tokens per second",
               "Communication hidden behind computation",
               "Time lost to waiting", "Traffic into rank 0",
               "Memory of rank 0", "Largest process"],
}


# ---- sample runs ----


def update_line(step, run, noise):
    """What training writes after an update, for a loss that falls."""
    loss = 1.4 + 2.9 * math.exp(-step / 150) + 0.12 * noise.gauss(0, 1)
    seconds = 0.05 * run["slowness"] * (1 + 0.1 * noise.random())
    ranks = range(run["ranks"])
    mib = 1 << 20
    return {
        "step": step, "epoch": step / 400,
        "loss": None if step == 321 else loss,
        "lr": run["lr"] * min(1, step / 60)
              * (0.55 + 0.45 * math.cos(math.pi * step / run["steps"])),
        "grad_norm": 1.1 + abs(noise.gauss(0, 0.25)) + (6 if step == 500 else 0),
        "seconds": seconds, "samples_per_second": 24 / seconds,
        "tokens_per_second": 24 * 64 / seconds,
        "memory": {"parameters": 3 * mib, "gathered": mib // 2,
                   "gathered_peak": (2 + (step < 30)) * mib,
                   "gradients": 3 * mib, "optimizer": 12 * mib,
                   "buffers": mib, "spilled": mib if step < 12 else 0},
        "traffic": {"intra_node": 6.1e6 + 1e5 * noise.random(),
                    "inter_node": 0, "control": 2048},
        "ranks": {"waiting": [0.004 * (1 + r) * noise.random() for r in ranks],
                  "communication": [0.02 for _ in ranks],
                  "resident": [(410 + 8 * r) * mib for r in ranks]},
    }


def make_run(folder, **run):
    folder.mkdir(parents=True)
    noise = random.Random(run["seed"])
    with open(folder / "metrics.jsonl", "w", encoding="utf-8") as file:
        for step in range(1, run["steps"] + 1):
            print(json.dumps(update_line(step, run, noise)), file=file)
            if step % 200 == 0:
                loss = 1.55 + 2.8 * math.exp(-step / 150)
                print(json.dumps({
                    "step": step, "seconds": 3.1, "samples": 12800,
                    "eval": {"loss": loss, "perplexity": math.exp(loss)},
                    "text": f"MENENIUS:\nWhat, after {step} steps? {HOSTILE}\n"
                            "Then speak no more, good friend, and let us go.",
                }), file=file)
        file.write('{"step":')  # killed while writing
    config = {"train_batch_size": 24, HOSTILE: True,
              "optimizer": {"type": "AdamW", "params": {"lr": run["lr"]}},
              "zero_optimization": {"stage": 3}}
    facts = {"model": "GPT: 4 layers, 4 heads, width 128", "stage": 3,
             "parameters": 803968, "ranks": run["ranks"],
             "started": "2026-01-02T14:00:00Z", "seconds": 101.2,
             "ended": "finished", "command": "zero train " + "long-name/" * 20}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "run.json").write_text(json.dumps(facts))


def make_runs(folder):
    make_run(folder / "first", seed=1, steps=1000, ranks=2, lr=1e-3, slowness=1)
    make_run(folder / "second", seed=2, steps=800, ranks=4, lr=3e-4,
             slowness=0.7)
    return [folder / "first", folder / "second"]


# ---- a browser ----


class Browser:
    """Chromium, spoken to through two pipes: messages of JSON that end in 0."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="zero-report-")
        read_end, theirs_write = self.pipe()
        theirs_read, self.to = self.pipe()

        def place_pipes():  # where Chromium looks for them
            os.dup2(theirs_read, 3)
            os.dup2(theirs_write, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-breakpad", "--no-first-run", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=place_pipes, pass_fds=(3, 4),
            start_new_session=True,
            env={**os.environ, "HOME": self.profile})
        os.close(theirs_read)
        os.close(theirs_write)
        self.source = read_end
        self.pending = b""
        self.count = 0
        self.events = []
        self.session = None

    @staticmethod
    def pipe():
        """Both ends above the numbers that are Chromium's."""
        ends = os.pipe()
        moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
        for end in ends:
            os.close(end)
        return moved

    def start(self):
        target = self.call("Target.createTarget", url="about:blank")
        self.session = self.call("Target.attachToTarget", flatten=True,
                                 targetId=target["targetId"])["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def stop(self):
        """The whole session of processes, whatever state it is in."""
        for _ in range(100):  # until the last of them is gone
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            self.process.poll()
            time.sleep(0.05)
        self.process.wait()
        os.close(self.source)
        os.close(self.to)
        shutil.rmtree(self.profile)

    def receive(self):
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.source], [], [], left)[0]:
                raise TimeoutError("Chromium did not answer in time")
            block = os.read(self.source, 1 << 16)
            if not block:
                raise EOFError("Chromium ended")
            self.pending += block
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression,
                           returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def look(self, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width,
                  height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        """Of the whole page, as wide as the window."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                          clip={**size, "scale": 1})
        path.write_bytes(base64.b64decode(image["data"]))

    def complaints(self):
        """Errors on the console, and requests for anything but the page."""
        found = []
        for event in self.events:
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(what["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(str(what["args"]))
            elif event["method"] == "Log.entryAdded":
                found.append(what["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                url = what["request"]["url"]
                if not url.startswith(("file:", "data:")):
                    found.append("request for " + url)
        return found


# ---- what must hold ----


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_equal(got, wanted, what):
    expect(got == wanted, f"{what}: got {got!r}, expected {wanted!r}")


def check_source(text):
    """The one script is the one that the page allows."""
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    expect_equal(len(scripts), 1, "scripts")
    digest = hashlib.sha256(scripts[0].encode()).digest()
    allowed = "'sha256-" + base64.b64encode(digest).decode() + "'"
    expect("script-src " + allowed in text,
           f"the page must allow its script: kReportScriptHash should be {allowed}")
    expect("default-src 'none'" in text, "the page forbids the network")


def texts(browser, selector):
    return browser.evaluate(
        f"[...document.querySelectorAll({json.dumps(selector)})]"
        ".map(e => e.textContent)")


def check_page(browser, path, shots):
    """What holds for every report, in both sizes and both schemes."""
    check_source(path.read_text(encoding="utf-8"))
    backgrounds = {}
    for size, (width, height) in SIZES.items():
        for scheme in ("light", "dark"):
            browser.look(width, height, scheme)
            browser.open(path)
            at = f"{path.name}, {size}, {scheme}"
            browser.evaluate("document.querySelectorAll('details')"
                             ".forEach(d => d.open = true)")
            expect_equal(browser.evaluate(
                "document.documentElement.scrollWidth"), width, "width of " + at)
            browser.evaluate("document.querySelectorAll('details')"
                             ".forEach(d => d.open = false)")
            backgrounds[scheme] = browser.evaluate(
                "getComputedStyle(document.body).backgroundColor")
            small = browser.evaluate(
                "Math.min(...[...document.querySelectorAll('.chart > svg text')]"
                ".map(t => t.getBoundingClientRect().height))")
            expect(small >= 11, f"letters of {small} pixels in {at}")
            if shots:
                browser.screenshot(shots / f"{path.stem}-{size}-{scheme}.png")
            expect_equal(browser.complaints(), [], "complaints of " + at)
    expect(backgrounds["light"] != backgrounds["dark"], "dark looks like light")
    expect_equal(len(texts(browser, "h1")), 1, "headings of the first level")
    expect_equal(browser.evaluate("document.documentElement.lang"), "en", "lang")
    unnamed = browser.evaluate(
        "[...document.querySelectorAll('svg[role=img]')].filter(s => !s"
        ".getAttribute('aria-labelledby').split(' ').every(i => document"
        ".getElementById(i)?.textContent)).length")
    expect_equal(unnamed, 0, "charts without a name")
    expect_equal(len(texts(browser, ".chart table")),
                 len(texts(browser, "svg[role=img]")), "tables of charts")


def check_pointer(browser):
    """The value under the pointer is the one of the table."""
    browser.look(*SIZES["desktop"], "light")
    place = browser.evaluate(
        "(() => { const s = document.querySelector('svg[data-x]');"
        "s.scrollIntoView({block: 'center'}); const b = s.getBoundingClientRect();"
        "return [b.right - b.width * 24 / 480, b.top + b.height / 2]; })()")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0],
                 y=place[1])
    browser.evaluate("new Promise(requestAnimationFrame)")
    read = texts(browser, ".read")[0]
    last = texts(browser, ".chart tbody")[0].strip().splitlines()[-1]
    shown = re.search(r"mean of 20 updates ([\d.]+)", read)
    expect(read.startswith("update 1,000:") and shown, f"pointer reads {read!r}")
    expect(any(abs(float(shown[1]) - float(cell)) < 0.01
               for cell in texts(browser, ".chart table tr:last-child td")[:2]),
           f"pointer reads {read!r}, the table has {last!r}")


def check_samples(browser, folder, render, shots):
    runs = make_runs(folder)
    pages = {"one": runs[:1], "two": runs}
    for name, shown in pages.items():
        path = folder / f"{name}.html"
        places = {"runs": " ".join(shlex.quote(str(run)) for run in shown),
                  "report": shlex.quote(str(path))}
        subprocess.run(shlex.split(render.format(**places)), check=True)
        check_page(browser, path, shots)
        expect_equal(texts(browser, ".chart h3"), ONE_RUN["charts"],
                     "charts of " + name)
        expect_equal(len(texts(browser, "svg[role=img]")),
                     len(ONE_RUN["charts"]), "pictures of " + name)
        wanted = ([] if len(shown) == 1 else ["Results"]) + ONE_RUN["headings"]
        expect_equal(texts(browser, "h2"), wanted, "sections of " + name)
        expect(HOSTILE in texts(browser, "pre")[0], "hostile text is shown")
        expect("803968" in texts(browser, "td"), "facts are shown")
        title = browser.evaluate("document.title")
        if len(shown) == 1:
            expect_equal(title, "first – training report", "title")
            check_pointer(browser)
        else:
            expect("2 training runs" in title, "title: " + title)
            rows = texts(browser, "tbody th")
            expect("optimizer.params.lr" in rows, f"differences: {rows}")
            expect("zero_optimization.stage" not in rows, "stages are equal")
            expect_equal(texts(browser, ".differs th"), ["folder ≠", "ranks ≠"],
                         "facts that differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--render", help="a command with {runs} and {report}")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--make", type=pathlib.Path)
    parser.add_argument("--screenshots", type=pathlib.Path)
    options = parser.parse_args()
    if options.make:
        make_runs(options.make)
        return 0
    if not options.render and not options.report:
        parser.error("--render, --report or --make is needed")
    program = shutil.which("chromium")
    if program is None:
        print("skipped: chromium is not installed (apt-get install chromium)")
        return SKIPPED
    if options.screenshots:
        options.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="zero-runs-") as folder:
        browser = Browser(program)
        try:
            browser.start()
            if options.report:
                check_page(browser, options.report, options.screenshots)
            if options.render:
                check_samples(browser, pathlib.Path(folder), options.render,
                              options.screenshots)
        finally:
            browser.stop()
    print("the pages are as they should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
