"""Apache RocketMQ: remoting between clients, brokers, name servers and controllers; replication is only named.

The modules in the order in which a frame passes them: ``frames`` (sizes and headers), ``extfields`` (typed by
``tables``), ``bodies`` and ``messages`` (with ``stored`` and ``records``), ``settlements``; ``remoting`` puts them
together; ``detection`` and ``ha`` tell what a connection is.
"""

from dissectors.rocketmq.ha import RocketMQHa
from dissectors.rocketmq.remoting import RocketMQ

__all__ = ["RocketMQ", "RocketMQHa"]
