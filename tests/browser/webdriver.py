# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium by the WebDriver protocol (https://www.w3.org/TR/webdriver2/), with Python's own library alone."""
import base64
import json
import re
import subprocess
import tempfile
import urllib.error
import urllib.request


class Browser:
    def __init__(self, chromedriver, chromium):
        self.profile = tempfile.TemporaryDirectory(prefix="cutrace-browser-")
        self.driver = subprocess.Popen([chromedriver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.session = ""
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.address = f"http://127.0.0.1:{found.group(1)}"
                break
        else:
            raise RuntimeError("chromedriver did not start")
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                     "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--window-size=1440,900", f"--user-data-dir={self.profile.name}"]
        capabilities = {"browserName": "chrome", "goog:chromeOptions": {"binary": chromium, "args": arguments},
                        "goog:loggingPrefs": {"browser": "ALL"}, "unhandledPromptBehavior": "ignore"}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{answer['sessionId']}"

    def call(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.address + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(f"{method} {path}: {e.read().decode()[:600]}") from None

    def open(self, path):
        self.call("POST", "/url", {"url": f"file://{path}"})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def console(self):
        """What the page said since the last call: errors, warnings, blocked loads."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def alert(self):
        """The text of an open alert, or None."""
        try:
            return self.call("GET", "/alert/text")
        except RuntimeError:
            return None

    def find(self, css):
        return next(iter(self.call("POST", "/element", {"using": "css selector", "value": css}).values()))

    def text(self, css):
        return self.run("return document.querySelector(arguments[0]).textContent", css)

    def type(self, css, text):
        self.call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def click(self, css):
        self.call("POST", f"/element/{self.find(css)}/click", {})

    def wheel(self, css, x, y, down):
        origin = {"element-6066-11e4-a52e-4f735466cecf": self.find(css)}
        self.call("POST", "/actions", {"actions": [{"type": "wheel", "id": "w", "actions": [
            {"type": "scroll", "x": x, "y": y, "deltaX": 0, "deltaY": down, "origin": origin}]}]})

    def drag(self, css, x, by):
        origin = {"element-6066-11e4-a52e-4f735466cecf": self.find(css)}
        moves = [{"type": "pointerMove", "x": x, "y": 0, "origin": origin}, {"type": "pointerDown", "button": 0},
                 {"type": "pointerMove", "x": x + by, "y": 0, "origin": origin, "duration": 50}, {"type": "pointerUp", "button": 0}]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "p", "actions": moves}]})

    def scheme(self, name):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": name}]}})

    def size(self, width, height):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}})

    def screenshot(self, path, whole_page=False):
        parameters = {"format": "png", "captureBeyondViewport": whole_page}
        if whole_page:
            height = self.run("return document.documentElement.scrollHeight")
            parameters["clip"] = {"x": 0, "y": 0, "width": 1440, "height": height, "scale": 1}
        picture = self.call("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": parameters})["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture))

    def close(self):
        try:
            if self.session:
                self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.profile.cleanup()
