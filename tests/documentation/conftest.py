"""The files that pages and docstrings read, in a directory and in a bucket."""

from __future__ import annotations

import pytest

from page_files import write_page_files
from support.stores import GcsServer


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("pages")
    write_page_files(directory)
    return directory


@pytest.fixture(scope="session")
def server(files):
    with GcsServer() as server:
        for path in files.rglob("*.parquet"):
            server.put("bucket", str(path.relative_to(files)), path.read_bytes())
        yield server


@pytest.fixture
def place(files, server, tmp_path, monkeypatch):
    """A directory with the files that pages read, and gs://bucket with the same."""
    for entry in files.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "kept"))
