"""mqsniff: a packet-capture protocol analyser for Apache Kafka, Apache Pulsar, Apache RocketMQ and NSQ."""

__version__ = "0.1.0"
