"""Results of checks in, JUnit XML out, as CI systems read it.

A test suite is a folder, a test case a capture or one of its expectations. Sources: the XML that pytest writes, and
the schema of Jenkins' xUnit plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

if TYPE_CHECKING:
    from pathlib import Path

    from mqsniff.answers.check.goldens import Checked

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, even escaped (section 2.2)."""


def write_junit(path: Path, results: Sequence[Checked], details: Callable[[Checked], Iterable[str]]) -> None:
    """Write results as JUnit XML; ``details`` gives the lines that explain a failure. Raises OSError."""
    root = Element("testsuites", name="mqsniff check")
    for folder, group in groupby(results, key=lambda checked: str(checked.capture.parent)):
        suite = SubElement(root, "testsuite", name=_plain(folder))
        for checked in group:
            _add_cases(suite, folder, checked, details)
        _count(suite)
    _count(root)
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _add_cases(suite: Element, folder: str, checked: Checked, details: Callable[[Checked], Iterable[str]]) -> None:
    """The test cases of a capture: its golden, then each expectation."""
    if checked.status != "failed" or not checked.outcomes:
        case = SubElement(suite, "testcase", classname=_plain(folder), name=_plain(checked.capture.name))
        if checked.status == "unreadable":
            SubElement(case, "error", message=_plain(checked.remark), type="unreadable")
        elif not checked.passed and checked.status != "failed":
            failure = SubElement(case, "failure", message=_plain(_sentence(checked)), type=checked.status)
            failure.text = _plain("\n".join(details(checked)))
    for outcome in checked.outcomes:
        name = f"{checked.capture.name}: {outcome.name}"
        case = SubElement(suite, "testcase", classname=_plain(folder), name=_plain(name))
        if not outcome.passed:
            failure = SubElement(case, "failure", message=_plain(outcome.says), type="expectation")
            failure.text = _plain("\n".join(map(str, outcome.rows)))


def _sentence(checked: Checked) -> str:
    count = len(checked.differences)
    return f"{count} difference{'' if count == 1 else 's'}" if count else checked.remark or checked.status


def _count(element: Element) -> None:
    element.set("tests", str(len(list(element.iter("testcase")))))
    element.set("failures", str(len(list(element.iter("failure")))))
    element.set("errors", str(len(list(element.iter("error")))))


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
