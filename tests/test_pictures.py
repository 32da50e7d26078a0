"""The picture of the README holds what the commands in it print on a terminal today, and nothing of elsewhere."""

from __future__ import annotations

import importlib.util
import re
from html import unescape
from pathlib import Path

HOME = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("build_pictures", HOME / "docs" / "build_pictures.py")
build_pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build_pictures)

DRAWN = build_pictures.PICTURE.read_text()


def words(text: str) -> list[str]:
    """The words of a text, without the seconds that a run took."""
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\xa0", " ")
    return [word for word in plain.split() if not re.fullmatch(r"\d+\.\d\d", word)]


def test_the_picture_holds_what_the_commands_print():
    texts = re.findall(r"<text [^>]*>(.*?)</text>", DRAWN)
    drawn = words(" ".join(map(unescape, texts)))
    said = []
    for arguments, most in build_pictures.SESSION:
        said += ["$", "mqsniff", *arguments]
        said += words(" ".join(build_pictures.printed(arguments)[:most]))
    assert [word for word in said if word not in drawn] == [], "run: make pictures"
    assert len(said) > 100


def test_the_picture_asks_nobody():
    assert set(re.findall(r"https?://[^\"\s<]+", DRAWN)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "@font-face" not in DRAWN
    assert "script" not in DRAWN
    assert f"({build_pictures.PICTURE.relative_to(HOME)})" in (HOME / "README.md").read_text()
