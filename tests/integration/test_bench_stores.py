"""fastload-bench on the files of a store."""

import json

import jsonschema
import pytest

from fastload.tools.bench.report.record import schema
from fastload.tools.cli.bench import main
from support.bench_jobs import launch_from_fork_server
from support.sample_files import write_sample
from support.stores import GcsServer


@pytest.mark.timeout(120)
def test_a_store_is_read_and_kept(tmp_path, monkeypatch, capsys):
    launch_from_fork_server(monkeypatch)
    path = write_sample(tmp_path / "sample.parquet", 1000)
    with GcsServer() as server, open(path, "rb") as file:
        server.put("bucket", "train/a.parquet", file.read())
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "kept"))
        arguments = ["gs://bucket/train", "--peers", "pyarrow", "--repeats", "1", "--shuffle"]
        arguments += ["--epochs", "2"]
        outputs = ["--cache-dir", str(tmp_path / "cache"), "--json", str(tmp_path / "a.json")]
        assert main([*arguments, *outputs]) == 0, capsys.readouterr()
        assert main([*arguments, "--roofline"]) == 2
    out = capsys.readouterr()
    assert "Expected local files for --roofline" in out.err
    assert "compared on local files only" in out.out
    record = json.loads((tmp_path / "a.json").read_text())
    jsonschema.validate(record, schema(), jsonschema.Draft202012Validator)
    assert record["dataset"]["files"] == ["gs://bucket/train/a.parquet"]
    assert {result["name"] for result in record["results"]} == {"fastload", "pyarrow + DataLoader"}
    assert record["roof"] is None
    assert any((tmp_path / "cache").rglob("*"))
