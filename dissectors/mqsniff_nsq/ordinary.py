"""NSQ's answers of the normal course: none. Every error that nsqd or nsqlookupd sends refuses a command."""

from __future__ import annotations

from typing import Final

from mqsniff.model import OrdinaryAnswers

ORDINARY: Final = OrdinaryAnswers()
