"""Tables in object stores: the storage_options of a dataset serve the table's log, too."""

from __future__ import annotations

import json
import zlib

import pyarrow as pa
import pytest
from torch.utils.data import DataLoader

from fastload import Delta, FastParquetDataset, Iceberg, SourceNotFoundError, StorageError
from support.lakehouse import deletion_vector, delta_field, in_order, needs, write_delta
from support.stores import GcsServer
from support.stores.s3 import KEYS, forget_credentials, moto, put

LEFT = [x for x in range(40) if x not in (1, 7)]


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch, tmp_path):
    """Of the user's."""
    forget_credentials(monkeypatch, tmp_path)


@pytest.fixture
def delta(tmp_path):
    """A Delta table with a partition whose name needs escapes, and a deletion vector."""
    needs("deltalake")
    table = tmp_path / "t"
    table.mkdir()
    fields = [delta_field("x", "long"), delta_field("p", "string")]
    files = [
        (pa.table({"x": range(20)}), {"p": "a b"}, deletion_vector(table, [1, 7])),
        (pa.table({"x": range(20, 40)}), {"p": None}, None),
    ]
    write_delta(table, fields, files, partitions=["p"], vectors=True)
    return table


def check(source, options):
    """Read all rows, and some of them, in this process and in workers forked from it."""
    assert in_order(source, storage_options=options, columns=["x"]) == [(x,) for x in LEFT]
    some = in_order(source, storage_options=options, columns=["x"], filters=[("x", ">", 36)])
    assert some == [(37,), (38,), (39,)]
    dataset = FastParquetDataset(source, columns=["x"], storage_options=options, batch_size=4)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60)
    rows = [row for batch in loader for row in batch["x"].tolist()]
    assert set(rows) == set(LEFT)


def test_delta_on_gs(delta):
    with GcsServer() as server:
        for path in delta.rglob("*"):
            if path.is_file():
                server.put("bucket", f"t/{path.relative_to(delta)}", path.read_bytes())
        options = {"endpoint_url": server.url, "token": "anon"}
        check(Delta("gs://bucket/t"), options)
        with pytest.raises(SourceNotFoundError, match="- at gs://bucket/none"):
            FastParquetDataset(Delta("gs://bucket/none"), storage_options=options)


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("s3fs")
    with moto() as url:
        yield url


def options_of(url):
    return {**KEYS, "endpoint_url": url, "client_kwargs": {"region_name": "us-east-1"}}


def test_delta_on_s3(delta, s3):
    for path in delta.rglob("*"):
        if path.is_file():
            put(f"{s3}/bucket/t/{path.relative_to(delta)}", path.read_bytes())
    check(Delta("s3://bucket/t"), options_of(s3))


def test_iceberg_on_s3_with_the_options_of_its_catalog(s3, tmp_path):
    needs("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    from support.lakehouse import commit_deletes, equality_deletes

    properties = {
        "s3.endpoint": s3,
        "s3.access-key-id": "someone",
        "s3.secret-access-key": "something",
        "s3.region": "us-east-1",
    }
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("test", uri=uri, warehouse="s3://bucket/warehouse", **properties)
    catalog.create_namespace("db")
    schema = pa.schema([("x", pa.int64())])
    table = catalog.create_table("db.t", schema, properties={"format-version": "2"})
    table.append(pa.table({"x": range(20, 40)}))
    table.append(pa.table({"x": range(20)}))
    commit_deletes(table, equality_deletes(table, pa.table({"x": [1, 7]})))
    source = Iceberg("db.t", catalog=catalog)
    check(source, None)
    check(source, options_of(s3))
    path = table.metadata_location
    check(Iceberg(path, catalog=properties), None)


def test_a_filesystem_cannot_serve_the_log(delta):
    import fsspec

    with pytest.raises(ValueError, match="Expected storage_options for a table, got a filesystem"):
        FastParquetDataset(Delta(delta), filesystem=fsspec.filesystem("file"))


NAMES = {
    "file:///{local}": r"got `file:///.*/secret.parquet`, a path of this machine",
    "FILE:///{local}": r"got `FILE:///.*/secret.parquet`, a path of this machine",
    "file:/{local}": "a path of this machine",
    "//{local}": "a path of this machine",
    "../secret.parquet": "Expected data files below the table, got `../secret.parquet`",
    "..%2Fsecret.parquet": "Expected data files below the table, got `../secret.parquet`",
    "x::file:///{local}": "Expected a file, found none - at s3://",
    "{server}/bucket/secret.parquet": "in the store of the table, got `http://",
    "gs://bucket/secret.parquet": "in the store of the table, got `gs://",
    "s3://bucket/outside/../secret.parquet": "in the store of the table, got `s3://",
    "/secret.parquet": None,
    "s3://other/secret.parquet": None,
    "s3a://other/secret.parquet": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_delta_table_in_a_store_names_files_of_this_store(delta, s3, tmp_path, name):
    write_delta(delta, [delta_field("x", "long")], [(pa.table({"x": [1]}), {}, None)])
    data = (delta / "part-0.parquet").read_bytes()
    (tmp_path / "secret.parquet").write_bytes(data)
    log = (delta / "_delta_log" / f"{0:020}.json").read_text()
    local = str(tmp_path / "secret.parquet").lstrip("/")
    found = json.dumps(name.format(local=local, server=s3))
    key = f"bucket/{zlib.crc32(name.encode())}"
    put(f"{s3}/{key}/t/_delta_log/{0:020}.json", log.replace('"part-0.parquet"', found).encode())
    put(f"{s3}/other", b"")
    for place in ("bucket", "other", key):
        put(f"{s3}/{place}/secret.parquet", data)
    source, options = Delta(f"s3://{key}/t"), options_of(s3)
    if NAMES[name] is None:
        assert in_order(source, storage_options=options) == [(1,)]
        return
    with pytest.raises((StorageError, SourceNotFoundError), match=NAMES[name]):
        FastParquetDataset(source, storage_options=options)


@pytest.mark.parametrize("kind", ["file", "http"])
def test_a_deletion_vector_of_a_table_in_a_store_lies_in_this_store(delta, s3, tmp_path, kind):
    vector = deletion_vector(tmp_path, [1])
    (file,) = tmp_path.glob("deletion_vector_*")
    place = file.as_uri() if kind == "file" else f"{s3}/bucket/{file.name}"
    vector = {**vector, "storageType": "p", "pathOrInlineDv": place}
    files = [(pa.table({"x": [1, 2]}), {}, vector)]
    write_delta(delta, [delta_field("x", "long")], files, vectors=True)
    for path in delta.rglob("*"):
        if path.is_file():
            put(f"{s3}/bucket/vector-{kind}/{path.relative_to(delta)}", path.read_bytes())
    source = Delta(f"s3://bucket/vector-{kind}")
    with pytest.raises(StorageError, match="Expected deletion vectors in the store of the table"):
        in_order(source, storage_options=options_of(s3))
