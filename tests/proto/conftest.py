"""Puts proto/ on the path: its scripts import each other, and nobody else imports them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "proto"))
