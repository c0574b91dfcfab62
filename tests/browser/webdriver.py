# SPDX-License-Identifier: Apache-2.0
"""A small WebDriver client (W3C WebDriver, and Chromium's own additions) on Python's standard library."""

import json
import re
import shutil
import subprocess
import time
import urllib.request

DRIVERS = ("chromedriver", "/usr/lib/chromium/chromedriver")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 20
KEYS = {
    "Tab": "\ue004",
    "Shift": "\ue008",
    "Home": "\ue011",
    "ArrowLeft": "\ue012",
    "ArrowUp": "\ue013",
    "ArrowRight": "\ue014",
    "ArrowDown": "\ue015",
    "Enter": "\ue007",
}


def missing():
    """What has to be installed before a browser can run; empty if nothing."""
    absent = []
    if not any(map(shutil.which, DRIVERS)):
        absent.append("chromedriver (Debian: chromium-driver)")
    if not any(map(shutil.which, BROWSERS)):
        absent.append("chromium (Debian: chromium)")
    return ", ".join(absent)


class Browser:
    """A headless Chromium with one window, closed at the end of a `with` block."""

    def __init__(self, width=1280, height=900):
        driver = next(filter(None, map(shutil.which, DRIVERS)))
        self.process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            self.root = f"http://127.0.0.1:{self._port()}"
            self.session = self._start(width, height)
        except BaseException:
            self.process.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait(10)

    def _port(self):
        for line in self.process.stdout:
            if match := re.search(r"started successfully on port (\d+)", line):
                return match.group(1)
        raise RuntimeError("chromedriver did not start")

    def _start(self, width, height):
        options = {
            "binary": next(filter(None, map(shutil.which, BROWSERS))),
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--force-device-scale-factor=1",
                f"--window-size={width},{height}",
            ],
        }
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._request("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        return answer["sessionId"]

    def _request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def _call(self, method, path, body=None):
        return self._request(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value that a function body returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def frame(self):
        """Waits until what was asked to be drawn is drawn."""
        self._call(
            "POST",
            "/execute/async",
            {
                "args": [],
                "script": "const done = arguments[0];requestAnimationFrame(() => requestAnimationFrame(() => done()));",
            },
        )

    def command(self, name, **parameters):
        """A command of the Chrome DevTools Protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def log(self, kind):
        return self._call("POST", "/se/log", {"type": kind})

    def media(self, **features):
        self.command(
            "Emulation.setEmulatedMedia",
            features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()],
        )

    def size(self, width, height):
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        self.frame()

    def _actions(self, *sources):
        self._call("POST", "/actions", {"actions": list(sources)})
        self.frame()

    def hover(self, x, y):
        """Moves the pointer to a place in the window."""
        move = {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}
        self._actions({"type": "pointer", "id": "mouse", "actions": [move]})

    def drag(self, x, y, dx, dy):
        def move(to_x, to_y):
            return {"type": "pointerMove", "duration": 30, "x": round(to_x), "y": round(to_y)}

        down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        self._actions({"type": "pointer", "id": "mouse", "actions": [move(x, y), down, move(x + dx, y + dy), up]})

    def wheel(self, x, y, delta):
        time.sleep(0.35)  # a burst of its own
        scroll = {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": delta, "duration": 0}
        self._actions({"type": "wheel", "id": "wheel", "actions": [scroll]})

    def press(self, *keys):
        """Presses keys together: press("Shift", "ArrowLeft")."""
        codes = [KEYS.get(key, key) for key in keys]
        actions = [{"type": "keyDown", "value": code} for code in codes]
        actions += [{"type": "keyUp", "value": code} for code in reversed(codes)]
        self._actions({"type": "key", "id": "keyboard", "actions": actions})

    def screenshot(self, whole=True):
        """PNG bytes of the page or of what is visible, in base64."""
        return self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
