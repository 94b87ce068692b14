"""Headless Chromium, driven over a pipe by its DevTools protocol; no test runs where it is not installed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One page, and what it did: its errors and the addresses that it asked for."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._to, self._from = to_browser, from_browser
        self._received = b""
        self._id = 0
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    _session = None

    def open(self, path: Path, width: int = 1200, height: int = 900, query: str = "") -> None:
        """Load a file, and wait until it is there."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._call("Page.navigate", url=path.resolve().as_uri() + (query and f"?{query}"))
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def screenshot(self, path: Path) -> None:
        """Write the whole page to a PNG file."""
        answer = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def evaluate(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait_for(self, script: str, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.evaluate(script):
            assert time.monotonic() < deadline, f"not so after {seconds} s: {script}"
            time.sleep(0.05)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._note(answer.get("method"), answer.get("params", {}))

    def _note(self, method: str | None, event: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(event["exceptionDetails"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(str(event["entry"]))
        elif method == "Runtime.consoleAPICalled" and event["type"] == "error":
            self.errors.append(str(event["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            chunk = os.read(self._from, 1 << 16)
            assert chunk, "the browser has ended"
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """A page of a browser of its own.

    :param folder: for its profile
    """
    assert CHROMIUM is not None
    read_end, to_browser = os.pipe()
    from_browser, write_end = os.pipe()

    def connect() -> None:  # the protocol reads from 3 and writes to 4
        os.dup2(read_end, 33)
        os.dup2(write_end, 34)
        os.dup2(33, 3)
        os.dup2(34, 4)

    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    command += [
        f"--user-data-dir={folder}",
        "--autoplay-policy=no-user-gesture-required",
        "--disable-dev-shm-usage",
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=connect,
        pass_fds=(3, 4),
    )
    os.close(read_end)
    os.close(write_end)
    try:
        yield Page(to_browser, from_browser)
    finally:
        process.terminate()
        process.wait(20)
        os.close(to_browser)
        os.close(from_browser)
