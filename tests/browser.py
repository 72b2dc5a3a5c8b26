"""Shows a page in a headless Chromium, and measures what came of it.

A browser is any Chromium: the program that $CHROMIUM names, else the first of `PROGRAMS` on PATH
(Debian: `apt install chromium-headless-shell`). It is run without network. A script that is added
to a copy of the page measures it; the pages themselves have none.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 90


def find_browser() -> str | None:
    """The browser's program; None without one."""
    named = os.environ.get("CHROMIUM")
    found = (shutil.which(name) for name in ([named] if named else PROGRAMS))
    return next((path for path in found if path), None)


@dataclass(frozen=True)
class Picture:
    """A screenshot: its size, and how many different lines it has."""

    width: int
    height: int
    kinds_of_lines: int


def read_png(data: bytes) -> Picture:
    """The picture in a PNG of 8 bits a channel, as Chromium writes it."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and kind in {2, 6}
    packed, place = b"", 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"IDAT":
            packed += data[place + 8 : place + 8 + length]
        place += length + 12
    channels = 3 if kind == 2 else 4
    stride = width * channels + 1
    lines = zlib.decompress(packed)
    # Filters change how a line is written, so a blank page may have more than one kind, but few.
    found = {lines[y * stride + 1 : (y + 1) * stride] for y in range(height)}
    return Picture(width, height, len(found))


@dataclass(frozen=True)
class Browser:
    """A program, and a folder for what it writes."""

    program: str
    folder: Path

    def _run(
        self, page: str, *options: str, width: int = 1200, height: int = 900, dark: bool = False
    ) -> str:
        """What the browser prints; its complaints raise."""
        path = self.folder / "page.html"
        path.write_text(page, encoding="utf-8")
        settings = f"preferredColorScheme={0 if dark else 1}"
        done = subprocess.run(
            [
                self.program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--enable-logging=stderr",
                "--virtual-time-budget=1000",
                f"--user-data-dir={self.folder / 'profile'}",
                f"--window-size={width},{height}",
                f"--blink-settings={settings}",
                *options,
                path.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        complaints = re.findall(r"CONSOLE.*", done.stderr)
        assert not complaints, complaints
        return done.stdout

    def measure(self, page: str, script: str, width: int = 1200, dark: bool = False) -> Any:
        """The value of a JavaScript expression on the page, shown in a window of this width."""
        added = (
            '<script>addEventListener("load", () => {'
            f"const value = JSON.stringify({script});"
            'const said = document.createElement("pre"); said.id = "measured";'
            "said.textContent = value; document.body.append(said); });</script>"
        )
        shown = self._run(
            page.replace("</body>", f"{added}</body>"), "--dump-dom", width=width, dark=dark
        )
        found = re.search(r'<pre id="measured">(.*?)</pre>', shown, re.DOTALL)
        assert found, shown[-500:]
        return json.loads(html.unescape(found.group(1)))

    def picture(self, page: str, width: int = 1200) -> Picture:
        """What a screenshot of the page has."""
        return read_png(self.screenshot(page, width))

    def screenshot(self, page: str, width: int = 1200, height: int = 900) -> bytes:
        """A screenshot of the page, as PNG."""
        path = self.folder / "page.png"
        self._run(page, f"--screenshot={path}", width=width, height=height)
        return path.read_bytes()
