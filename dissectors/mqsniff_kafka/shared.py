"""What requests and responses of one connection share; each part is made when it is needed first.

Most connections of a capture may be short: a request for the versions of the APIs needs none of this.
"""

from __future__ import annotations

from mqsniff.framing import FramedDissector
from mqsniff_kafka.fetching import FetchSessions
from mqsniff_kafka.logins import Logins
from mqsniff_kafka.membership import Membership
from mqsniff_kafka.records.data import RecordData


class SharedParts:
    """The shared parts of one connection."""

    __slots__ = ("_membership", "_records", "_sessions", "_settings", "logins")

    def __init__(self, owner: FramedDissector) -> None:
        self._settings = owner.settings
        self.logins = Logins(owner)
        self._membership: Membership | None = None
        self._sessions: FetchSessions | None = None
        self._records: RecordData | None = None

    @property
    def membership(self) -> Membership:
        """What it said about its groups."""
        if self._membership is None:
            self._membership = Membership()
        return self._membership

    @property
    def sessions(self) -> FetchSessions:
        """Its fetch sessions."""
        if self._sessions is None:
            self._sessions = FetchSessions(self._settings.limits.handles_max)
        return self._sessions

    @property
    def records(self) -> RecordData:
        """What reads its record data."""
        if self._records is None:
            self._records = RecordData(self._settings)
        return self._records
