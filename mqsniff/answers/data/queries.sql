-- :slow
-- The slowest exchanges, by the time that the broker worked on them.
-- What a request waited for an earlier answer (queue_ns) is taken off. Left out is what the broker held until there was
-- data, a member or the end of the wait that the request allowed: that is waiting.
select request_ts, client, server, protocol, name, topics,
       work_ns / 1e6 as work_ms, latency_ns / 1e6 as latency_ms, queue_ns / 1e6 as queue_ms
from exchanges
where link = 'answer' and work_ns is not null and held is not true
order by work_ms desc
limit 10;

-- :latency
-- Latency by command, in milliseconds, with what never had an answer beside it.
-- As above: waited counts what the broker held; the percentiles are of the others, without queue_ns.
with timed as (
  select protocol, name, status, coalesce(held, false) as waited,
         work_ns / 1e6 as work_ms
  from exchanges
  where link = 'answer' and name is not null
)
select protocol, name,
       count(*) as requests,
       count(*) filter (status in ('unanswered', 'lost', 'pending')) as without_answer,
       count(*) filter (waited) as waited,
       round(quantile_cont(work_ms, 0.5) filter (not waited), 3) as p50_ms,
       round(quantile_cont(work_ms, 0.99) filter (not waited), 3) as p99_ms,
       round(max(work_ms) filter (not waited), 3) as max_ms
from timed
group by all
order by requests desc;

-- :errors
-- Errors by command: what brokers refused, how often, and whom.
select protocol, name, error_name, count(*) as errors, count(distinct client) as clients, min(request_ts) as first
from exchanges
where status in ('error', 'partial')
group by all
order by errors desc;

-- :transit
-- From producer to consumer: the same record on both ways, by the key that its client made, else its message id, else its
-- partition and offset.
-- Kafka, Pulsar and RocketMQ. Not NSQ: it names a message when it delivers it, and tells its producer nothing but OK.
with placed as (
  select *, coalesce(unique_key, message_id, concat_ws(' ', "partition", "offset")) as place
  from records
  where (unique_key is not null or message_id is not null or "offset" is not null)
    and left_out is null and (chunk_id is null or joined)
)
select p.protocol, p.topic, p."partition", p.place,
       p.client_id as producer, d.client_id as consumer, (d.ts_ns - p.ts_ns) / 1e6 as transit_ms
from placed p
join placed d on d.protocol = p.protocol and d.topic = p.topic and d.place = p.place
where p.direction = 'produce' and d.direction = 'deliver' and d.reader is distinct from 'follower'
order by transit_ms desc
limit 20;

-- :lag
-- Consumer lag: how far each fetch was behind the end of its partition.
-- Kafka and RocketMQ, whose answers tell where a partition ends. Not Pulsar and NSQ: they push, and tell no end with what they push.
select q.protocol, q.client_id, q.topic, q.partition, q.ts, a.high_watermark - q."offset" as lag
from partitions q
join exchanges e on e.connection_id = q.connection_id and e.request_stream_offset = q.stream_offset
join partitions a on a.connection_id = e.connection_id and a.stream_offset = e.response_stream_offset
     and a.side = 'server' and a.topic = q.topic and a.partition = q.partition
where q.side = 'client' and e.link = 'answer' and a.high_watermark is not null and q."offset" >= 0
order by q.ts;

-- :repeated
-- Deliveries that were repeated, and by which group.
-- NSQ, Pulsar, RocketMQ, and Kafka's share groups. Not Kafka's other groups: nobody counts what they read again.
select protocol, topic, "partition", "group", coalesce(message_id, "offset"::varchar) as message,
       max(attempts) as attempts, min(ts) as first, max(ts) as last
from records
where direction = 'deliver' and left_out is null and (chunk_id is null or joined)
group by all
having max(attempts) > 1
order by attempts desc, first;

-- :settled
-- How long consumers took to settle what was delivered to them, and how it ended.
-- NSQ, Pulsar, and RocketMQ where consumers pop messages or transactions are checked. Not Kafka: its consumers commit how far
-- they have read.
select protocol, "group", settled_by, status, count(*) as messages,
       round(avg(latency_ns) / 1e6, 3) as avg_ms, max(in_flight) as in_flight_max
from exchanges
where link = 'settlement'
group by all
order by messages desc;

-- :clients
-- Who connects: software, versions and how they log in.
select protocol, client_software, server_software, mechanism, tls_version,
       count(*) as connections, count(distinct client_ip) as hosts
from connections
where outcome in ('established', 'mid-stream')
group by all
order by connections desc;

-- :topics
-- Topics by volume: records and bytes of values, each way, by codec.
-- A message in chunks counts once, as a whole; slots of a batch that are not for the application do not count.
select protocol, topic, direction, codec, count(*) as records, sum(value_size) as value_bytes, max(value_size) as largest
from records
where topic is not null and left_out is null and (chunk_id is null or joined)
group by all
order by value_bytes desc;

-- :traffic
-- Traffic over time: messages and bytes a second, by protocol.
select date_trunc('second', ts) as second, protocol, count(*) as messages, sum(size) as bytes
from messages
group by all
order by second, protocol;

-- :software
-- What a field of the body says, here the software that Kafka's clients announce.
-- Kafka alone: the command and its fields are Kafka's. The column client_software of connections has it for all protocols.
select body ->> '$.client_software_name' as software, body ->> '$.client_software_version' as version, count(*) as times
from messages
where protocol = 'kafka' and name = 'ApiVersions' and kind = 'request'
group by all
order by times desc;

-- :records
-- What records say, as text. Where values are JSON, decode(value) ->> '$.field' is a field of theirs.
select protocol, topic, "partition", "offset", direction, client_id, decode(key) as key, decode(value) as value
from records
where left_out is null and (chunk_id is null or joined) and value_encoding = 'utf8' and coalesce(key_encoding, 'utf8') = 'utf8'
order by topic, "partition", "offset";

-- :rebalances
-- How groups were rebalanced: who joined and left, when, and how long that took.
-- Kafka alone: in the other protocols members do not answer each other, the broker just gives them messages.
select "group", client_id, name, request_ts, status, error_name, round(latency_ns / 1e6, 3) as latency_ms
from exchanges
where protocol = 'kafka' and name in ('JoinGroup', 'SyncGroup', 'LeaveGroup')
order by "group", request_ts;

-- :problems
-- What was not decoded, lost or odd, worst first.
select severity, kind, protocol, count(*) as problems, sum(size) as bytes, any_value(detail) as example
from problems
group by all
order by min(case severity when 'error' then 0 when 'warning' then 1 else 2 end), problems desc;

-- :network
-- The network or the broker: exchanges during which the network had trouble on their connection, longest first.
select e.protocol, e.name, e.client, e.server, e.request_ts, round(e.latency_ns / 1e6, 3) as latency_ms,
       count(*) as troubles, string_agg(distinct p.kind, ', ') as kinds, any_value(p.detail) as example
from exchanges e
join problems p
  on p.connection_id = e.connection_id and p.kind in ('retransmission', 'zero_window', 'stall')
  and p.ts between e.request_ts and e.response_ts
group by e.protocol, e.name, e.client, e.server, e.request_ts, e.latency_ns
order by e.latency_ns desc;
