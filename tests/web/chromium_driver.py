"""Running WGSL in headless Chromium (Tint and SwiftShader), beside the interpreter."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chromium import SWIFTSHADER, BrowserError, Chromium, Page
from site_server import Site
from vulkan_driver import Driver, DriverError

# What an adapter or WGSL offers -> features of ir.targets. No browser has f64 and i64.
OFFERED = {
    "shader-f16": ("f16",),
    "subgroups": tuple(
        f"subgroup_{name}" for name in ("basic", "vote", "arithmetic", "ballot", "shuffle")
    ),
    "packed_4x8_integer_dot_product": ("dot4",),
}


def open_judge(browser: Chromium, site: Site) -> tuple[Page, dict[str, Any]]:
    """A page with `judge.js` as `judge`, and what its device has."""
    page = browser.page(f"{site.address}/judge/judge.js")
    begin = "(async () => (globalThis.judge = await import('/judge/judge.js')).begin())()"
    return page, page.evaluate(begin)


class ChromiumDriver(Driver):
    """WebGPU in a browser of its own; started again after a crash."""

    def __init__(self, name: str = "chromium", flags: Sequence[str] = SWIFTSHADER) -> None:
        self.label, self.flags = name, flags
        self.site = Site({"/judge/": Path(__file__).parent})
        self.browser: Chromium | None = None
        self.start()

    def start(self) -> None:
        self.browser = Chromium(self.flags)
        self.page, found = open_judge(self.browser, self.site)
        offered = [*found["features"], *found["language"]]
        self.features = {word for name in offered for word in OFFERED.get(name, ())}
        self.name, self.limits = found["name"], found["limits"]
        least, most = found["subgroup"]
        self.subgroup = least if least == most else None

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function of the judge. DriverError on whatever goes wrong."""
        if self.browser is None:
            self.start()
        try:
            return self.page.invoke(f"(...a) => judge.{function}(...a)", *arguments)
        except BrowserError as error:  # the device may be lost: the next job gets a fresh browser
            self.stop()
            raise DriverError(f"{self.label}: {error}") from None

    def wrong(self, codes: Sequence[str], entry: str = "main") -> list[str | None]:
        """What Tint, or the making of a pipeline, has against each of some modules."""
        return list(self.ask("compile", codes, entry))

    def submit(self, job: dict[str, Any]) -> list[bytes]:
        code = job["blob"].decode()
        # A layout made from the module has the bindings that the module uses.
        body = code[code.index("@compute") :]
        declared = re.findall(r"@binding\((\d+)\) var<[^>]*> (\w+):", code[: -len(body)])
        used = [int(n) for n, name in declared if re.search(rf"\b{name}\b", body)]
        rest = {key: value for key, value in job.items() if key != "blob"}
        answer = self.ask("run", {**rest, "code": code, "bindings": used})
        return [base64.b64decode(text) for text in answer]

    def stop(self) -> None:
        if self.browser is not None:
            self.browser.close()
        self.browser = None

    def close(self) -> None:
        self.stop()
        self.site.__exit__(None, None, None)
