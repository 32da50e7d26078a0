-- The slowest exchanges. A request that the broker was allowed to hold is no slow one, so held ones are left out.
select request_ts, client, server, name, topics, latency_ns / 1e6 as latency_ms, queue_ns / 1e6 as queue_ms
from exchanges
where status in ('ok', 'partial', 'error') and link = 'answer' and held is not true
order by latency_ns desc
limit 10;

-- Latency by command, in milliseconds, with what never had an answer beside it.
select protocol, name,
       count(*) as requests,
       count(*) filter (status in ('unanswered', 'lost', 'pending')) as without_answer,
       round(quantile_cont(latency_ns, 0.5) / 1e6, 3) as p50_ms,
       round(quantile_cont(latency_ns, 0.99) / 1e6, 3) as p99_ms,
       round(max(latency_ns) / 1e6, 3) as max_ms
from exchanges
where link = 'answer' and name is not null
group by all
order by requests desc;

-- Errors by command: what brokers refused, how often, and whom.
select protocol, name, error_name, count(*) as errors, count(distinct client) as clients, min(request_ts) as first
from exchanges
where status in ('error', 'partial')
group by all
order by errors desc;

-- From producer to consumer: the same record on both ways, by its place at the broker.
select p.protocol, p.topic, p.partition,
       coalesce(p."offset"::varchar, p.message_id) as place,
       p.client_id as producer, d.client_id as consumer, (d.ts_ns - p.ts_ns) / 1e6 as transit_ms
from records p
join records d on d.protocol = p.protocol and d.topic = p.topic
     and d.partition is not distinct from p.partition
     and coalesce(d."offset"::varchar, d.message_id) = coalesce(p."offset"::varchar, p.message_id)
where p.direction = 'produce' and d.direction = 'deliver' and d.reader is distinct from 'follower'
order by transit_ms desc
limit 20;

-- Consumer lag, as Kafka's and RocketMQ's answers show it: how far each fetch was behind the end of its partition.
select q.client_id, q.topic, q.partition, q.ts, a.high_watermark - q."offset" as lag
from partitions q
join exchanges e on e.connection_id = q.connection_id and e.request_stream_offset = q.stream_offset
join partitions a on a.connection_id = e.connection_id and a.stream_offset = e.response_stream_offset
     and a.side = 'server' and a.topic = q.topic and a.partition = q.partition
where q.side = 'client' and e.link = 'answer' and a.high_watermark is not null and q."offset" >= 0
order by q.ts;

-- Deliveries that were repeated, and by which group.
select protocol, topic, "group", coalesce(message_id, "offset"::varchar) as message,
       max(attempts) as attempts, min(ts) as first, max(ts) as last
from records
where direction = 'deliver'
group by all
having max(attempts) > 1
order by attempts desc, first;

-- How long consumers took to settle what was delivered to them, and how it ended.
select protocol, "group", settled_by, status, count(*) as messages,
       round(avg(latency_ns) / 1e6, 3) as avg_ms, max(in_flight) as in_flight_max
from exchanges
where link = 'settlement'
group by all
order by messages desc;

-- Who connects: software, versions and how they log in.
select protocol, client_software, server_software, mechanism, tls_version,
       count(*) as connections, count(distinct client_ip) as hosts
from connections
where outcome in ('established', 'mid-stream')
group by all
order by connections desc;

-- Topics by volume: records and bytes of values, each way, by codec.
select protocol, topic, direction, codec, count(*) as records, sum(value_size) as value_bytes, max(value_size) as largest
from records
where topic is not null
group by all
order by value_bytes desc;

-- Traffic over time: messages and bytes a second, by protocol.
select date_trunc('second', ts) as second, protocol, count(*) as messages, sum(size) as bytes
from messages
group by all
order by second, protocol;

-- What a field of the body says, here the software that Kafka's clients announce.
select body ->> '$.client_software_name' as software, body ->> '$.client_software_version' as version, count(*) as times
from messages
where protocol = 'kafka' and name = 'ApiVersions' and kind = 'request'
group by all
order by times desc;

-- What records say, as text. Where values are JSON, decode(value) ->> '$.field' is a field of theirs.
select topic, "partition", "offset", direction, client_id, decode(key) as key, decode(value) as value
from records
where value_encoding = 'utf8' and coalesce(key_encoding, 'utf8') = 'utf8'
order by topic, "partition", "offset";

-- How groups were rebalanced: who joined and left, when, and how long that took.
select "group", client_id, name, request_ts, status, error_name, round(latency_ns / 1e6, 3) as latency_ms
from exchanges
where protocol = 'kafka' and name in ('JoinGroup', 'SyncGroup', 'LeaveGroup')
order by "group", request_ts;

-- What was not decoded, lost or odd, worst first.
select severity, kind, protocol, count(*) as problems, sum(size) as bytes, any_value(detail) as example
from problems
group by all
order by min(case severity when 'error' then 0 when 'warning' then 1 else 2 end), problems desc;

-- The network or the broker: exchanges during which the network had trouble on their connection, longest first.
select e.protocol, e.name, e.client, e.server, e.request_ts, round(e.latency_ns / 1e6, 3) as latency_ms,
       count(*) as troubles, string_agg(distinct p.kind, ', ') as kinds, any_value(p.detail) as example
from exchanges e
join problems p
  on p.connection_id = e.connection_id and p.kind in ('retransmission', 'zero_window', 'stall')
  and p.ts between e.request_ts and e.response_ts
group by e.protocol, e.name, e.client, e.server, e.request_ts, e.latency_ns
order by e.latency_ns desc;
