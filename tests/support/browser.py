"""A Chromium without a window, asked by its own protocol over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from contextlib import contextmanager

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
# A picture of a page taller than this is cut: GPUs and their stand-ins have textures no larger.
_TALLEST = 16_000


def installed():
    """The path of one, or None."""
    return next(filter(None, (shutil.which(name, path=_path()) for name in NAMES)), None)


def _path():
    """PATH, and what a browser's script needs: tests of the wheel have no programs on PATH."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin", "/bin"])


def _environment():
    """Without what a sanitizer of the core needs: under its preloads a browser hangs."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return {**kept, "PATH": _path()}


class Page:
    """A tab. Whatever it has to say is kept.

    messages: errors and warnings of its console, exceptions, and what the browser logs of it.
    requests: URLs that it asked for.
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
        """Opens it in a window of so many pixels, and waits until it is loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._size(width, 800)
        self._call("Page.navigate", url=url)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script):
        """The value of a JavaScript expression."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def nodes(self):
        """(role, name) of what a screen reader is told."""
        tree = self._call("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"]
        ]

    def picture(self, width):
        """A PNG of the whole page."""
        height = self.evaluate("document.documentElement.scrollHeight")
        self._size(width, min(height, _TALLEST))
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def close(self):
        """Ends the browser."""
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
        """The next message of the browser, looked at."""
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
    """A Page of a browser that keeps its files below `directory`."""
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    # It reads and writes the descriptors 3 and 4.
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
