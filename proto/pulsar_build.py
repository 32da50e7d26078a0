"""Pulsar's .proto files in, one serialized FileDescriptorSet out, which the protobuf runtime loads as it is.

python proto/pulsar_build.py            writes dissectors/mqsniff_pulsar/data/pulsar.binpb
python proto/pulsar_build.py --check    fails where the committed file is not what the .proto files give

The compiler is protoc itself, out of the development dependency grpcio-tools: the program never needs it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

HERE: Final = Path(__file__).parent
SOURCES: Final = ("pulsar.proto", "pulsar_markers.proto")
TARGET: Final = HERE.parent / "dissectors" / "mqsniff_pulsar" / "data" / "pulsar.binpb"


def build(home: Path = HERE, sources: Sequence[str] = SOURCES) -> bytes:
    """The content of ``pulsar.binpb``, or what other sources give; SyntaxError if protoc refuses."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "set.binpb")
        if protoc.main(["protoc", f"--proto_path={home}", f"--descriptor_set_out={out}", *sources]):
            raise SyntaxError("protoc refused a .proto file; its reason stands above")
        files = FileDescriptorSet.FromString(out.read_bytes())
    for file in files.file:
        for message in (*file.message_type, *(inner for outer in file.message_type for inner in outer.nested_type)):
            for field in message.field:
                field.ClearField("json_name")  # made of the name by every reader; versions of protoc differ in it
    return files.SerializeToString(deterministic=True)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Build pulsar.binpb from proto/pulsar*.proto.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the file is stale")
    check = parser.parse_args().check
    content = build()
    if not check:
        TARGET.write_bytes(content)
    elif not TARGET.is_file() or TARGET.read_bytes() != content:
        print(
            f"stale: dissectors/mqsniff_pulsar/data/{TARGET.name} (run: python proto/pulsar_build.py)", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
