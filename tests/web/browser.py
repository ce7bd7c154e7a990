# SPDX-License-Identifier: MIT
"""A headless Chromium, spoken to over a pipe: its DevTools protocol needs no driver and no package.

    with Browser() as browser:
        page = browser.open("file:///tmp/page.html", width=1280, height=720)
        page.evaluate("1 + 1")
        page.click(100, 200)
        page.press("Escape")
        page.screenshot("shot.png")
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
         "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe"]
KEYS = {"Escape": 27, "Enter": 13, "Backspace": 8, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}
PATIENCE = 60


def find():
    """The browser of this machine, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="cairn-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def place():
            # The protocol is on descriptors 3 and 4; these may be what others are now.
            high = [os.dup2(to_browser, 60), os.dup2(from_browser, 61)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [find(), *FLAGS, "--user-data-dir=" + self.folder, "about:blank"], preexec_fn=place, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.pending, self.number, self.events = b"", 0, []
        return self

    def __exit__(self, *_):
        try:
            self.ask("Browser.close")
            self.process.wait(10)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self):
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.read_end], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError("the browser does not answer")
            data = os.read(self.read_end, 1 << 20)
            if not data:
                raise OSError("the browser is gone")
            self.pending += data
        text, _, self.pending = self.pending.partition(b"\0")
        return json.loads(text)

    def ask(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write_end, data):]
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def open(self, address, width=1280, height=720, scheme="light", motion="reduce"):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(domain + ".enable")
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                        {"name": "prefers-reduced-motion", "value": motion}])
        page.go(address)
        return page


class Page:
    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target

    def ask(self, method, **parameters):
        return self.browser.ask(method, session=self.session, **parameters)

    def go(self, address):
        """Opens an address, and waits until the viewer has shown itself."""
        self.ask("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")
        if self.evaluate("'cairn' in window"):
            self.evaluate("window.cairn.then(({app}) => { window.app = app; return true; })")
        self.settle()

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self.target)

    def evaluate(self, script):
        result = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def wait(self, condition):
        end = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise AssertionError("in vain: " + condition)
            time.sleep(0.02)

    def settle(self):
        """Until what was changed is drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def mouse(self, kind, x, y, **more):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y, button="left", count=1):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button=button, clickCount=count)
        self.settle()

    def click_on(self, selector, text=None):
        """The middle of the first element of a selector (that has this text)."""
        place = self.evaluate("(() => { const all = [...document.querySelectorAll(%s)]; const found = all.find((one) => "
                              "one.checkVisibility() && (%s === null || one.textContent.trim() === %s)); if (!found) return null; "
                              "found.scrollIntoView({block: 'nearest', inline: 'nearest'}); const box = found.getBoundingClientRect(); "
                              "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
                              % (json.dumps(selector), json.dumps(text), json.dumps(text)))
        if place is None:
            raise AssertionError(f"no {selector} with {text!r}")
        self.click(*place)

    def press(self, key, modifiers=0):
        named = key in KEYS
        shared = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": KEYS[key] if named else ord(key.upper())}
        text = {} if named or modifiers & 2 else {"text": key}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **shared, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **shared)
        self.settle()

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """Errors and requests of the page so far."""
        found = []
        self.evaluate("0")
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, told = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(told["exceptionDetails"].get("exception", {}).get("description") or told["exceptionDetails"]["text"])
            elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(one.get("value", one.get("description"))) for one in told["args"]))
            elif method == "Page.javascriptDialogOpening":
                found.append("dialog: " + told["message"])
        return found

    def requests(self):
        self.evaluate("0")
        return [event["params"]["request"]["url"] for event in self.browser.events
                if event.get("sessionId") == self.session and event.get("method") == "Network.requestWillBeSent"]
