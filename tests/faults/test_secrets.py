"""What is secret is nowhere: not in messages, logs, reports, states, pickled states or caches."""

from __future__ import annotations

import contextlib
import json
import logging
import traceback
import warnings

import pytest

from fastload import IO, Cache, FastParquetDataset
from fastload.errors import FastloadError
from support.stored_dataset import served
from support.stores import Fault

SECRET = "pl4nted-s3cret"
# Each as a server, a proxy or a user may bring it along.
TOKEN = {"type": "service_account", "private_key": SECRET, "client_email": f"{SECRET}@x"}


def everything_said(caplog, told, raised):
    """All that a run has left, beside its caches."""
    parts = [record.getMessage() for record in caplog.records if "fastload" in record.name]
    parts += [str(warning.message) for warning in told]
    for error in raised:
        parts += traceback.format_exception(error)
    return parts


def read(source, said, raised, **options):
    """Reads all of it, and says all that a dataset can say of itself."""
    try:
        dataset = FastParquetDataset(source, threads=1, **options)
    except (FastloadError, ValueError, OSError) as error:
        raised.append(error)
        return
    with dataset:
        try:
            for batch in dataset:
                said.append(json.dumps(dataset.state_dict(after=batch)))
                break
            list(dataset)
        except (FastloadError, ValueError, OSError) as error:
            raised.append(error)
        said += [repr(dataset), repr(dataset.stats()), repr(dataset.schema), str(dataset.files)]
        said += [repr(options.get("io")), repr(options.get("cache"))]


@pytest.mark.parametrize("transport", ["fsspec", "native"])
def test_a_planted_secret_is_nowhere(paths, tmp_path, monkeypatch, caplog, transport):
    home, cache = tmp_path / "home", tmp_path / "cache"
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(home))
    caplog.set_level(logging.DEBUG)
    said, raised = [], []
    io = IO(transport=transport, retries=1, timeout_s=2)
    common = {"io": io, "cache": Cache(cache), "columns": ["c3", "s"]}
    with served(paths) as server, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        host = server.url.removeprefix("http://")
        signed = f"http://user:{SECRET}@{host}/bucket/train/part-0.parquet?sig={SECRET}"
        keys = {"key": "key", "secret": SECRET, "token": SECRET}
        s3 = {**keys, "client_kwargs": {"endpoint_url": server.url, "region_name": "x"}}
        azure = f"AccountName=a;AccountKey={SECRET};BlobEndpoint={server.url}"
        for fault in (None, Fault(403), Fault(503), Fault("reset")):
            server.fault = lambda request, fault=fault: fault
            anonymous = {**server.options, "session_kwargs": {"headers": {"x-key": SECRET}}}
            read("gs://bucket/train/", said, raised, storage_options=anonymous, **common)
            if fault is None:
                continue
            read("gs://bucket/train/", said, raised,
                 storage_options={**server.options, "token": TOKEN}, **common)  # fmt: skip
            read(signed, said, raised, **common)
            with contextlib.suppress(ImportError):
                read("s3://bucket/train/x.parquet", said, raised, storage_options=s3, **common)
            read("az://bucket/train/x.parquet", said, raised,
                 storage_options={"connection_string": azure}, **common)  # fmt: skip
    assert raised
    texts = everything_said(caplog, told, raised) + said
    assert len(texts) > 50
    assert not [text for text in texts if SECRET in text]
    kept = [path for directory in (home, cache) for path in directory.rglob("*")]
    assert [path for path in kept if path.is_file()]
    for path in kept:
        assert SECRET not in str(path)
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def test_what_others_may_write_to_is_not_believed(paths, tmp_path, monkeypatch):
    """A directory of footers or counts: the pass goes on without it, and says so."""
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))
    options = {"columns": ["c3"], "filters": [("day", "<", 30)]}
    with FastParquetDataset([str(path) for path in paths], **options) as dataset:
        expected = [batch["c3"].tolist() for batch in dataset]
    changed = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert changed
    for path in changed:
        path.chmod(0o777)
    with (
        pytest.warns(UserWarning, match="only its user may write to") as told,
        FastParquetDataset([str(path) for path in paths], **options) as dataset,
    ):
        found = [batch["c3"].tolist() for batch in dataset]
    assert found == expected
    assert len(told) <= len(changed)
