"""Nine transactions of five records, every third one aborted, then a reader; prints what was done as JSON."""

from __future__ import annotations

import json

import confluent_kafka

BROKER = {"bootstrap.servers": "127.0.0.1:9092"}
producer = confluent_kafka.Producer({**BROKER, "transactional.id": "billing-1", "linger.ms": 5})
done = {"committed": 0, "aborted": 0, "aborted_records": 0, "read": 0, "version": confluent_kafka.libversion()[0]}
producer.init_transactions(30)
for number in range(9):
    producer.begin_transaction()
    for index in range(5):
        producer.produce("payments", key=f"k{index}", value=f"payment {number}.{index}", partition=0)
    producer.flush(30)
    if number % 3 == 2:
        producer.abort_transaction(30)
        done["aborted"] += 1
        done["aborted_records"] += 5
    else:
        producer.commit_transaction(30)
        done["committed"] += 1
consumer = confluent_kafka.Consumer(
    {**BROKER, "group.id": "ledger", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
)
consumer.subscribe(["payments"])
quiet = 0
while done["read"] < 30 and quiet < 40:
    message = consumer.poll(0.5)
    if message is None or message.error():
        quiet += 1
    else:
        done["read"] += 1
consumer.close()
print(json.dumps(done))
