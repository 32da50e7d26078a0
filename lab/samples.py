"""The files of a scenario in; a sample of ``pcaps/`` with truth, expectations, golden and provenance out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from lab.downloads import LabError

PCAPS: Final = Path(__file__).parents[1] / "pcaps"
_BEGIN: Final = "<!-- made by python -m lab retake -->\n"
_END: Final = "<!-- end -->\n"
_HEAD: Final = "| capture | server | client | what is in it | made by |\n|---|---|---|---|---|\n"


def sampled(pcaps: Path = PCAPS) -> list[str]:
    """The scenarios that samples come from."""
    return [json.loads(truth.read_bytes())["lab"] for truth in _truths(pcaps)]


def _truths(pcaps: Path) -> list[Path]:
    return sorted(pcaps.glob("*/lab-*.json"))


def install(capture: Path, pcaps: Path = PCAPS) -> Path:
    """Put a capture among the samples, and write its golden; the path of the sample."""
    truth = capture.with_suffix(".json")
    checked = [sys.executable, "-m", "mqsniff", "check", "--update", str(capture)]
    if subprocess.run(checked, check=False, stdout=subprocess.DEVNULL).returncode:
        raise LabError(f"{capture}: its golden was not written; mqsniff check says why")
    folder = pcaps / json.loads(truth.read_bytes())["protocol"]
    folder.mkdir(exist_ok=True)
    for ending in (".expect.toml", ".golden.ndjson", ""):
        shutil.copy(f"{capture}{ending}", folder / f"{capture.name}{ending}")
    shutil.copy(truth, folder / truth.name)
    write_provenance(pcaps)
    return folder / capture.name


def write_provenance(pcaps: Path = PCAPS) -> None:
    """Write the table of lab samples in the README anew."""
    readme = pcaps / "README.md"
    before, _, rest = readme.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    readme.write_text(before + _BEGIN + _HEAD + "".join(provenance(pcaps)) + _END + after)


def provenance(pcaps: Path = PCAPS) -> list[str]:
    """A line for each sample that a scenario made."""
    lines = []
    for truth in _truths(pcaps):
        told = json.loads(truth.read_bytes())
        cells = (f"`{truth.stem}.pcap`", told["server"], told["client"], told["shows"], f"`lab retake {told['lab']}`")
        lines.append(f"| {' | '.join(cells)} |\n")
    return lines
