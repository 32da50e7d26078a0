"""NSQ: nsqd's protocol V2 and nsqlookupd's protocol V1."""

from mqsniff_nsq.lookupd import Nsqlookupd
from mqsniff_nsq.nsqd import Nsq

__all__ = ["Nsq", "Nsqlookupd"]
