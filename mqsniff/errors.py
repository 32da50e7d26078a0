"""The errors that users of ``import mqsniff`` catch; traffic raises none of them, it makes rows of ``problems``."""

from __future__ import annotations


class MqsniffError(Exception):
    """Any error of mqsniff; its text is one line that says what and where."""


class OptionError(MqsniffError, ValueError):
    """A filter or another option that cannot be meant, such as ``slower="fast"``."""


class UnreadableError(MqsniffError):
    """An input that cannot be read: it is not there, or it is no capture."""


class QueryError(MqsniffError):
    """A query, or a condition of ``where``, that cannot be run; the text says what and near where."""


class CaptureError(MqsniffError):
    """An interface that cannot be captured; the text says why and what to do."""
