"""Sends COUNT messages and receives them, every fourth one only the second time; prints what was done as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import pulsar

COUNT = int(sys.argv[1])
done = {"produced": [], "acknowledged": 0, "negative": 0, "redelivered": 0, "packed": 0}
client = pulsar.Client("pulsar://127.0.0.1:6650", logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, "/dev/null"))
consumer = client.subscribe(
    "orders",
    "billing",
    consumer_type=pulsar.ConsumerType.Shared,
    initial_position=pulsar.InitialPosition.Earliest,
    negative_ack_redelivery_delay_ms=200,
)
producer = client.create_producer("orders", batching_enabled=True, batching_max_messages=7)
for number in range(COUNT):
    body = f"order {number}"
    stored = producer.send(body.encode(), partition_key=f"key-{number % 5}")
    done["produced"].append([stored.ledger_id(), stored.entry_id(), body])
for codec in (pulsar.CompressionType.ZLib, pulsar.CompressionType.SNAPPY):
    name = f"packed-{codec.name.lower()}"
    packer = client.create_producer("packed", producer_name=name, compression_type=codec)
    packer.send(f"{name}: {'order, ' * 40}".encode())
    done["packed"] += 1
    packer.close()
standby = client.subscribe("packed", "failover", consumer_type=pulsar.ConsumerType.Failover)
standby.close()
while done["acknowledged"] < COUNT:
    message = consumer.receive(20_000)
    again = message.redelivery_count() > 0
    done["redelivered"] += again
    if int(message.data().split()[1]) % 4 == 0 and not again:
        done["negative"] += 1
        consumer.negative_acknowledge(message)
    else:
        done["acknowledged"] += 1
        consumer.acknowledge(message)
client.close()
done["version"] = importlib.metadata.version("pulsar-client")
print(json.dumps(done))
