"""What tests of tables share: rows that can be compared, and tables written by the protocol."""

from __future__ import annotations

import json
import math
import os
import struct
import uuid
import zlib
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset


def needs(name):
    """Import a library of tables; skip the tests without it, but not in CI."""
    if os.environ.get("CI") == "true":
        return __import__(name)
    return pytest.importorskip(name)


def rows_of(table):
    """Return the rows of an Arrow table, as `loaded` gives them, with their numbers."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = [_values(table[name]) for name in sorted(table.column_names)]
    return Counter(zip(*columns, strict=True))


def loaded(source, **arguments):
    """Return the rows that fastload reads from a source, with their numbers."""
    return Counter(in_order(source, **arguments))


def in_order(source, **arguments):
    """Return the rows that fastload reads from a source, in order."""
    dataset = FastParquetDataset(source, nulls="mask", batch_size=1000, **arguments)
    names = sorted(name for name in dataset.schema if not name.endswith("__valid"))
    rows = []
    with dataset:
        for batch in dataset:
            arrow = batch.to_arrow()
            columns = []
            for name in names:
                values = _values(arrow[name])
                if f"{name}__valid" in arrow.schema.names:
                    valid = arrow[f"{name}__valid"].to_pylist()
                    values = [v if ok else None for v, ok in zip(values, valid, strict=True)]
                columns.append([None if v == "nan" else v for v in values])
            rows += zip(*columns, strict=True)
    return rows


def _values(column):
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return [_value(value) for value in column.to_pylist()]


def _value(value):
    if isinstance(value, float) and math.isnan(value):
        return None  # fastload reads a null of floats as NaN
    return tuple(map(_value, value)) if isinstance(value, list) else value


# Delta, written by the protocol ---------------------------------------------------------------

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data):
    """Encode bytes, a multiple of 4, as ZeroMQ does."""
    text = ""
    for at in range(0, len(data), 4):
        number, digits = int.from_bytes(data[at : at + 4], "big"), ""
        for _ in range(5):
            digits, number = _Z85[number % 85] + digits, number // 85
        text += digits
    return text


def delta_field(name, kind, physical=None, number=None):
    """Return a field of a Delta schema; with column mapping if there is a number."""
    metadata = {}
    if number is not None:
        metadata["delta.columnMapping.id"] = number
        metadata["delta.columnMapping.physicalName"] = physical
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def deletion_vector(directory, rows, *, inline=False):
    """Write a deletion vector, and return its descriptor."""
    from pyroaring import BitMap

    payload = struct.pack("<iqi", 1681511377, 1, 0) + BitMap(rows).serialize()
    known = {"sizeInBytes": len(payload), "cardinality": len(set(rows))}
    if inline:
        padded = payload + bytes(-len(payload) % 4)
        return {"storageType": "i", "pathOrInlineDv": z85(padded), **known}
    name = uuid.uuid4()
    body = struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    Path(directory, f"deletion_vector_{name}.bin").write_bytes(b"\1" + body)
    return {"storageType": "u", "pathOrInlineDv": z85(name.bytes), "offset": 1, **known}


def write_delta(directory, fields, files, *, mode=None, partitions=(), vectors=False):
    """Write version 0 of a Delta table by hand.

    Args:
        directory: directory to make.
        fields: fields of the schema, from `delta_field`.
        files: (Arrow table, partition values, deletion vector or None) of each file.
        mode: mode of the column mapping; None = no mapping.
        partitions: names of the partition columns.
        vectors: the table may have deletion vectors.
    """
    directory = Path(directory)
    (directory / "_delta_log").mkdir(parents=True, exist_ok=True)
    features = ["columnMapping"] * bool(mode) + ["deletionVectors"] * vectors
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": features, "writerFeatures": features}
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "99"}
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partitions),
        "createdTime": 1,
        "configuration": configuration if mode else {},
    }
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    for number, (table, values, vector) in enumerate(files):
        path = directory / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=max(1, len(table) // 2))
        add = {"path": path.name, "partitionValues": values, "size": path.stat().st_size}
        add |= {"modificationTime": 1, "dataChange": True}
        add["stats"] = json.dumps({"numRecords": len(table)})
        actions.append({"add": add | ({"deletionVector": vector} if vector else {})})
    text = "\n".join(map(json.dumps, actions))
    (directory / "_delta_log" / f"{0:020}.json").write_text(text)
