"""NSQ: nsqd's protocol V2 and nsqlookupd's protocol V1."""

from dissectors.nsq.lookupd import Nsqlookupd
from dissectors.nsq.nsqd import Nsq

__all__ = ["Nsq", "Nsqlookupd"]
