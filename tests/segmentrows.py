"""Segments as plain rows: by the path of ``decode``, and through plan, scan and prefix of the batch job."""

from mqsniff.batch.bundles import Bundle, merged, problems_of, read_key, segments_of
from mqsniff.batch.inputs import list_inputs
from mqsniff.batch.plan import ScanOptions, plan
from mqsniff.batch.prefix import Rescan, prefix
from mqsniff.batch.report import PieceReport
from mqsniff.batch.scan import scan
from mqsniff.limits import Limits
from mqsniff.sources.files import FileSource
from mqsniff.streams.packets import PacketDecoder

COLUMNS = ("direction", "seq", "ack", "flags", "size", "ip_id", "ts_ns", "packet", "interface")


def rows_of(batch):
    """(flow, columns, payload) of each segment."""
    view = memoryview(batch.buffer)
    columns = [getattr(batch, name).tolist() for name in COLUMNS]
    flows = [batch.flows[index] for index in batch.flow.tolist()]
    payloads = [bytes(view[a:b]) for a, b in zip(batch.start.tolist(), batch.stop.tolist(), strict=True)]
    return list(zip(flows, *columns, payloads, strict=True))


def plain(paths, limits=None):
    """(rows in merged order, problems of packets, captures) as decode reads them."""
    limits = limits or Limits()
    source = FileSource([str(path) for path in paths], limits)
    decoder = PacketDecoder(limits)
    rows, problems, others = [], [], 0
    for batch in source.batches():
        segments = decoder.decode(batch)
        rows += rows_of(segments)
        problems += segments.problems
        others += segments.skipped_packets
    problems += decoder.close()
    return rows, sorted(map(told, problems)), source.captures, others


def told(problem):
    return (problem.packet, problem.ts_ns, problem.size, problem.problem.kind, problem.problem.detail)


class Run:
    """A batch job up to the shuffle, on this machine."""

    def __init__(self, paths, split_size=1 << 27, **options):
        self.plan = plan(list_inputs([str(path) for path in paths]), ScanOptions(split_size=split_size, **options))
        self.bundles, self.reports = [], []
        self.rounds = 0
        todo = self.plan.splits
        while True:
            for split in todo:
                self._scan(split)
            self.prefix = prefix(self.plan, self.reports)
            self.rounds += 1
            if not isinstance(self.prefix, Rescan):
                break
            self.plan, todo = self.prefix.plan, self.prefix.splits
        self.counted = [bundle for bundle in self.bundles if bundle.piece in self.prefix.placing.places]

    def _scan(self, split):
        for item in scan(split, self.plan.files, self.plan.options):
            if isinstance(item, PieceReport):
                self.reports.append(PieceReport.from_json(item.to_json()))
            else:
                assert isinstance(item, Bundle)
                self.bundles.append(item)

    def rows(self):
        """All segments in merged order."""
        own = [bundle for bundle in self.counted if bundle.key]
        return rows_of(segments_of(own, self.prefix.placing)) if own else []

    def rows_by_flow(self):
        """The segments of each flow, as reduce reads them."""
        flows = {}
        for bundle in sorted(self.counted, key=self.prefix.placing.key):
            if bundle.key:
                flows.setdefault(bundle.key, []).append(bundle)
        return {
            read_key(key): [row for batch in merged(iter(bundles), self.prefix.placing, 4096) for row in rows_of(batch)]
            for key, bundles in flows.items()
        }

    def problems(self):
        """Those of packets."""
        placing = self.prefix.placing
        return sorted(told(each) for bundle in self.counted if not bundle.key for each in problems_of(bundle, placing))
