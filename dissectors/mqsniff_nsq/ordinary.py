"""NSQ has no errors that are part of normal operation: every error that nsqd or nsqlookupd sends refuses a command."""

from __future__ import annotations

from typing import Final

from mqsniff.model import OrdinaryAnswers

ORDINARY: Final = OrdinaryAnswers()
