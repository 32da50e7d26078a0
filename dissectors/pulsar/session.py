"""Frames of one connection in, messages out that know what the connection said before: topics, questions, permits.

1. A frame becomes exactly one message, whatever is odd about it; only one without a command is Malformed.
2. Questions and answers find each other by each command's own rule: request_id (``r:``), producer and sequence id
   (``p:``), consumer and request id of an ACK (``c:``), sessions and watches; CONNECT, PING and their answers by order.
3. The first update of a session or watch answers its opening, later ones are pushes. A close that the broker begins is
   a push. A PRODUCER waits on where PRODUCER_SUCCESS says that it is not ready.
4. A delivered entry is a question that a settlement ends: an ACK, alone or cumulative, whole or by batch indexes, or a
   REDELIVER_UNACKNOWLEDGED_MESSAGES; closing the consumer ends it without.

Sources: ``ServerCnx``, ``ClientCnx``, ``ConsumerImpl``, ``ProducerImpl`` of Apache Pulsar 5.0.0-M1; captures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mqsniff.framing import FramedDissector
from mqsniff.model import Asked, Frame, Kind, Message, Problem, Secret, Side, Undecoded
from mqsniff.spec.wire import Malformed

from dissectors.pulsar import acksets, auth
from dissectors.pulsar.chunks import Chunks
from dissectors.pulsar.commands import BY_NAME, ID_FIELDS, NO_REQUEST, PAYLOAD, Command, answers_of
from dissectors.pulsar.frames import FRAME_ROOM, HEAD, MESSAGE_MAX
from dissectors.pulsar.handles import Consumer, Delivery, EntryId, Handles, Producer, name_of
from dissectors.pulsar.messages import marker_names, marker_type, numbers, read_command
from dissectors.pulsar.payload import Payload, is_sealed, read_payload
from dissectors.pulsar.records import place, record_batch
from dissectors.pulsar.schemas import open_schema

PROTOCOL: Final = "pulsar"

_TOPIC_FIELDS: Final = ("topic", "topics", "new_topics", "deleted_topics", "partitions", "subscription")
"""Fields that name topics: text, lists of text, or messages with a topic."""

_WITH_ACK_SETS: Final = frozenset({"MESSAGE", "ACK", "SEEK", "SUBSCRIBE", "REDELIVER_UNACKNOWLEDGED_MESSAGES"})

_OPENERS: Final = {"PRODUCER": "producer_id", "SUBSCRIBE": "consumer_id"}


class Session:
    """What one connection said so far, and how it reads the next frame."""

    def __init__(self, owner: FramedDissector) -> None:
        self._owner = owner
        self._limits = owner.settings.limits
        room = self._limits.handles_max
        self._producers: Handles[Producer] = Handles(Producer, room)
        self._consumers: Handles[Consumer] = Handles(Consumer, room)
        self._scalable: Handles[Consumer] = Handles(Consumer, room)
        self._sessions: Handles[str] = Handles(str, room)
        self._chunks = Chunks(room)
        self._connected = False
        self.message_max = MESSAGE_MAX
        """The largest message that the broker allows, as CONNECTED tells it."""
        self._rules: Mapping[str, Callable[[Message], None]] = {
            "CONNECT": self._connect,
            "CONNECTED": self._connected_by,
            "AUTH_CHALLENGE": self._challenge,
            "AUTH_RESPONSE": self._respond,
            "ERROR": self._error,
            "PING": self._ping,
            "PONG": self._pong,
            "PRODUCER": self._open_producer,
            "PRODUCER_SUCCESS": self._producer_success,
            "SEND": self._send,
            "SEND_RECEIPT": self._receipt,
            "SEND_ERROR": self._send_error,
            "CLOSE_PRODUCER": self._close_producer,
            "SUBSCRIBE": self._subscribe,
            "FLOW": self._flow,
            "MESSAGE": self._deliver,
            "ACK": self._ack,
            "ACK_RESPONSE": self._ack_response,
            "REDELIVER_UNACKNOWLEDGED_MESSAGES": self._redeliver,
            "CLOSE_CONSUMER": self._close_consumer,
            "UNSUBSCRIBE": self._unsubscribe,
            "SCALABLE_TOPIC_SUBSCRIBE": self._subscribe_scalable,
        }
