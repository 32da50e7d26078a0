"""The scenarios, by protocol; importing this package lists them in ``lab.scenarios``."""

from lab.plays import kafka, kafka_cluster, kafka_groups, nsq, pulsar, rocketmq

__all__ = ["kafka", "kafka_cluster", "kafka_groups", "nsq", "pulsar", "rocketmq"]
