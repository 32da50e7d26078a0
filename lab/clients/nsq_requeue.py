"""Publish COUNT messages, give each back once, finish it the second time; prints what was done as JSON."""

from __future__ import annotations

import json
import sys

import nsq
import tornado.ioloop

COUNT = int(sys.argv[1])
done = {"requeued": 0, "finished": 0, "second_attempts": 0, "version": nsq.__version__}
published = 0


def handle(message: nsq.Message) -> bool:
    if message.attempts == 1:
        done["requeued"] += 1
        message.requeue(time_ms=100, backoff=False)
        return True
    done["second_attempts"] += message.attempts == 2
    done["finished"] += 1
    if done["finished"] == COUNT:
        loop = tornado.ioloop.IOLoop.current()
        loop.call_later(0.5, loop.stop)
    return True


def publish() -> None:
    global published
    if published < COUNT:
        published += 1
        writer.pub("jobs", f"job {published}".encode())
    else:
        ticks.stop()


writer = nsq.Writer(["127.0.0.1:4150"])
reader = nsq.Reader(
    "jobs",
    "workers",
    handle,
    nsqd_tcp_addresses=["127.0.0.1:4150"],
    max_in_flight=5,
)
ticks = tornado.ioloop.PeriodicCallback(publish, 20)
tornado.ioloop.IOLoop.current().call_later(1, ticks.start)
tornado.ioloop.IOLoop.current().call_later(60, tornado.ioloop.IOLoop.current().stop)
tornado.ioloop.IOLoop.current().start()
print(json.dumps(done))
sys.exit(0 if done["finished"] == COUNT else 1)
