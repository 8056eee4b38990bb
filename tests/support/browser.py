"""A headless Chromium, controlled by the DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from contextlib import contextmanager

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
# Largest height of a picture: GPUs and their emulations limit the size of textures.
_TALLEST = 16_000


def installed():
    """Return the path of an installed browser, or None."""
    return next(filter(None, (shutil.which(name, path=_path()) for name in NAMES)), None)


def _path():
    """Return PATH with the system's programs, which tests of the wheel lack on their PATH."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin", "/bin"])


def _environment():
    """Return the environment without a sanitizer's preloads, under which a browser hangs."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**kept, "PATH": _path()}


class Page:
    """A tab of the browser, whose messages are kept.

    Attributes:
        messages: errors and warnings of the console, exceptions, and log entries of the browser.
        requests: URLs that the page requested.
    """

    def __init__(self, commands, answers):
        self._commands, self._answers = commands, answers
        self._number, self._session = 0, None
        self.messages, self.requests = [], []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self._call(f"{domain}.enable")

    def show(self, url, *, width, dark=False):
        """Open a URL in a window of `width` pixels, and wait until the page is loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._size(width, 800)
        self._call("Page.navigate", url=url)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script):
        """Return the value of a JavaScript expression."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def nodes(self):
        """Return (role, name) of each node that a screen reader reads."""
        tree = self._call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"]
        ]

    def picture(self, width):
        """Return a PNG of the whole page."""
        height = self.evaluate("document.documentElement.scrollHeight")
        self._size(width, min(height, _TALLEST))
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def close(self):
        """End the browser."""
        self._session = None
        self._call("Browser.close")

    def _size(self, width, height):
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def _call(self, method, **parameters):
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        self._commands.write(json.dumps(command).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _next(self):
        """Return the next message of the browser, and keep its errors and requests."""
        text = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.messages.append(parameters)
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return message


@contextmanager
def opened(browser, directory):
    """Open a Page of a browser that keeps its files below `directory`."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    # The browser reads from descriptor 3 and writes to descriptor 4.
    script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    options += ("--remote-debugging-pipe", f"--user-data-dir={directory}")
    process = subprocess.Popen(
        [shutil.which("bash", path=_path()), "-c", script, "bash", browser, *options],
        pass_fds=(to_browser, from_browser),
        env=_environment(),
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    with process, os.fdopen(commands, "wb") as writer, os.fdopen(answers, "rb") as reader:
        page = Page(writer, reader)
        try:
            yield page
        finally:
            page.close()
