"""Write the pictures of the report page: captures of real brokers in, PNG out (``make pictures CAPTURES=DIR``)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
PICTURES = (
    ("report-light.png", "light", "#summary", "kafka-cluster/kafka-4.4-dyn-kraft-leader-kill.pcap"),
    ("report-dark.png", "dark", "#groups", "kafka-client/kafka-3.9.1-librdkafka-2.16.0-group-rrange.pcapng"),
)
"""(file, colours, the section at the top, capture)."""
SIZE = {"width": 1180, "height": 820}


def main() -> None:
    """Write all of them; the argument is the folder of the captures."""
    captures = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, colours, section, capture in PICTURES:
            page = Path(folder) / f"{name}.html"
            words = [sys.executable, "-m", "mqsniff", "report", str(captures / capture), "--out", str(page), "--quiet"]
            subprocess.run(words, check=True, cwd=ROOT)  # noqa: S603  # our own command
            take(browser, page, ROOT / "docs/pictures" / name, colours, section)
        browser.close()


def take(browser: Browser, page: Path, picture: Path, colours: str, section: str) -> None:
    """Write one picture."""
    context = browser.new_context(color_scheme="dark" if colours == "dark" else "light", viewport=SIZE)
    opened = context.new_page()
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-ready]")
    opened.evaluate("id => scrollTo(0, document.querySelector(id).offsetTop - 70)", section)
    opened.wait_for_timeout(200)
    picture.parent.mkdir(exist_ok=True)
    opened.screenshot(path=picture)
    context.close()


if __name__ == "__main__":
    main()
