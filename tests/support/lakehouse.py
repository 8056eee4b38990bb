"""What tests of tables share: rows that can be compared, and tables written by the protocol."""

from __future__ import annotations

import io
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


def loaded(source, *, passes=1, **arguments):
    """Return the rows that fastload reads from a source in its last pass, with their numbers."""
    return Counter(in_order(source, passes=passes, **arguments))


def in_order(source, *, passes=1, **arguments):
    """Return the rows that fastload reads from a source in its last pass, in order."""
    return each_pass(source, passes, **arguments)[-1]


def each_pass(source, passes, **arguments):
    """Return the rows that fastload reads from a source in each of some passes, in order."""
    dataset = FastParquetDataset(source, nulls="mask", batch_size=1000, **arguments)
    names = sorted(name for name in dataset.schema if not name.endswith("__valid"))
    with dataset:
        return [
            [row for batch in dataset for row in _rows(batch.to_arrow(), names)]
            for _ in range(passes)
        ]


def _rows(arrow, names):
    columns = []
    for name in names:
        values = _values(arrow[name])
        if f"{name}__valid" in arrow.schema.names:
            valid = arrow[f"{name}__valid"].to_pylist()
            values = [v if ok else None for v, ok in zip(values, valid, strict=True)]
        columns.append([None if v == "nan" else v for v in values])
    return zip(*columns, strict=True)


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
        return None  # NaN does not equal itself
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


def write_delta(directory, fields, files, *, mode=None, partitions=(), vectors=False, **options):
    """Write version 0 of a Delta table by hand.

    Args:
        directory: directory to make.
        fields: fields of the schema, from `delta_field`.
        files: (Arrow table, partition values, deletion vector or None) of each file.
        mode: mode of the column mapping; None = no mapping.
        partitions: names of the partition columns.
        vectors: the table may have deletion vectors.
        options: options of `pq.write_table`.
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
        pq.write_table(table, path, row_group_size=max(1, len(table) // 2), **options)
        add = {"path": path.name, "partitionValues": values, "size": path.stat().st_size}
        add |= {"modificationTime": 1, "dataChange": True}
        add["stats"] = json.dumps({"numRecords": len(table)})
        actions.append({"add": add | ({"deletionVector": vector} if vector else {})})
    text = "\n".join(map(json.dumps, actions))
    (directory / "_delta_log" / f"{0:020}.json").write_text(text)


# Iceberg, whose delete files pyiceberg does not write ------------------------------------------


def iceberg_catalog(directory):
    """Make a catalog of pyiceberg in a file of SQLite, with the namespace `db`."""
    from pyiceberg.catalog.sql import SqlCatalog

    Path(directory).mkdir(parents=True, exist_ok=True)
    uri, warehouse = f"sqlite:///{directory}/catalog.db", f"file://{directory}"
    catalog = SqlCatalog("test", uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    return catalog


def iceberg_data_files(table):
    """Return the manifest entries of the data files of the latest snapshot, in order."""
    entries = []
    for manifest in table.current_snapshot().manifests(table.io):
        if manifest.content.name == "DATA":
            entries += manifest.fetch_manifest_entry(table.io)
    return entries


def position_deletes(table, rows, *, partition=None, spec_id=None):
    """Write a file of position deletes.

    Args:
        table: pyiceberg's table.
        rows: (path of a data file, position) of each row, which are sorted.
        partition: partition of the data files; None = no partition.
        spec_id: number of the partition spec; None = the table's own.
    """
    rows = sorted(rows)
    arrow = pa.schema([
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
    ])  # fmt: skip
    written = pa.table([[path for path, _ in rows], [at for _, at in rows]], schema=arrow)
    paths = {path for path, _ in rows}
    bounds = {2147483546: min(paths).encode()}, {2147483546: max(paths).encode()}
    return _delete_file(table, written, "POSITION_DELETES", partition, spec_id, bounds)


def equality_deletes(table, keys, *, partition=None, spec_id=None):
    """Write a file of equality deletes by the columns of an Arrow table, by their present names."""
    numbers = [table.schema().find_field(name).field_id for name in keys.column_names]
    fields = [
        pa.field(f"c{number}", field.type, metadata={"PARQUET:field_id": str(number)})
        for number, field in zip(numbers, keys.schema, strict=True)
    ]
    written = pa.table(keys.columns, schema=pa.schema(fields))
    return _delete_file(table, written, "EQUALITY_DELETES", partition, spec_id, None, numbers)


def _delete_file(table, written, content, partition, spec_id, bounds, equality_ids=None):
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    buffer = io.BytesIO()
    pq.write_table(written, buffer)
    with table.io.new_output(path).create() as output:
        output.write(buffer.getvalue())
    file = DataFile.from_args(
        content=DataFileContent[content],
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record() if partition is None else partition,
        record_count=len(written),
        file_size_in_bytes=buffer.tell(),
        lower_bounds=bounds and bounds[0],
        upper_bounds=bounds and bounds[1],
        equality_ids=equality_ids,
    )
    file.spec_id = table.spec().spec_id if spec_id is None else spec_id
    return file


def commit_deletes(table, *files, data=()):
    """Add delete files to a table, in one snapshot; and data files, whose rows are then as new."""
    from pyiceberg import manifest as m
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    class Writer(m.ManifestWriterV2):
        def content(self):
            return m.ManifestContent.DELETES

        @property
        def _meta(self):
            return {**super()._meta, "content": "deletes"}

    before = table.current_snapshot()
    number = uuid.uuid4().int >> 66
    sequence = table.metadata.last_sequence_number + 1
    manifests = list(before.manifests(table.io))
    parts = [(Writer, spec_id, files) for spec_id in {file.spec_id for file in files}]
    parts += [(m.ManifestWriterV2, spec_id, data) for spec_id in {file.spec_id for file in data}]
    for kind, spec_id, added_files in parts:
        output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro")
        spec = table.specs()[spec_id]
        with kind(spec, table.schema(), output, number, "deflate") as writer:
            for file in added_files:
                if file.spec_id == spec_id:
                    added = m.ManifestEntryStatus.ADDED
                    entry = m.ManifestEntry.from_args(
                        status=added, snapshot_id=number, data_file=file
                    )
                    writer.add_entry(entry)
        manifests.append(writer.to_manifest_file())
    path = f"{table.location()}/metadata/snap-{number}.avro"
    lists = m.write_manifest_list(
        2, table.io.new_output(path), number, before.snapshot_id, sequence, "deflate"
    )
    with lists as writer:
        writer.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=before.snapshot_id,
        sequence_number=sequence,
        manifest_list=path,
        summary=Summary(Operation.DELETE),
        schema_id=table.schema().schema_id,
    )
    main = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number)
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), main))
    table.refresh()
