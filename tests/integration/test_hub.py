"""Datasets of the Hugging Face Hub: one commit, few requests, addresses that expire."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

from fastload import IO, FastParquetDataset, SourceChangedError, SourceNotFoundError, StorageError
from support.own_process import in_its_own_process, printed
from support.stores import Fault, HubServer

pytest.importorskip("huggingface_hub")

FILES = 3
ROWS = 2_000  # of a file
TRANSPORTS = ["fsspec", "native"]
SECRET = "hf_secret"
WORKERS_S = 60


@lru_cache
def file_of(seed: int, rows: int = ROWS) -> bytes:
    """Write a file that is large enough to be read natively, of which tests read a little."""
    random = np.random.default_rng(seed)
    columns = {f"c{i}": random.integers(0, 1 << 62, rows) for i in range(6)}
    columns["x"] = np.arange(rows) + seed * rows
    columns["large"] = pa.array([bytes(5_000)] * rows, pa.binary(5_000))
    sink = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False}
    pq.write_table(pa.table(columns), sink, row_group_size=rows // 4, **options)
    return sink.getvalue()


def files_of(first: int = 0) -> dict[str, bytes]:
    files = {f"data/part-{n}.parquet": file_of(first + n) for n in range(FILES)}
    return {**files, "README.md": b"# A dataset", ".gitattributes": b"*.parquet filter=lfs"}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with HubServer() as server:
        server.commit("org/name", files_of())
        yield server


def dataset_of(hub, source="hf://datasets/org/name/data/*.parquet", **options):
    options.setdefault("storage_options", hub.options)
    options.setdefault("columns", ["x", "c1"])
    options.setdefault("batch_size", 500)
    return FastParquetDataset(source, **options)


def rows_of(dataset, column="x"):
    return [x for batch in dataset for x in batch[column].tolist()]


def expected(first=0, column="x"):
    tables = [pq.read_table(io.BytesIO(file_of(first + n))) for n in range(FILES)]
    return pa.concat_tables(tables)[column].to_pylist()


def agents(hub):
    """Return the names of the clients that asked the CDN for bytes."""
    return {request.headers["user-agent"].partition("/")[0] for request in hub.cdn.requests}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "source",
    [
        "hf://datasets/org/name/data/*.parquet",
        "hf://datasets/org/name",
        "hf://datasets/org/name/data/",
        "hf://datasets/org/name@main/**/*.parquet",
        [f"hf://datasets/org/name/data/part-{n}.parquet" for n in range(FILES)],
    ],
    ids=str,
)
def test_rows_are_pyarrows(hub, source, transport):
    commit = hub.repos["datasets", "org/name"].branches["main"]
    with dataset_of(hub, source, io=IO(transport=transport)) as dataset:
        hub.reset()
        assert rows_of(dataset) == expected()
        assert rows_of(dataset, "c1") == expected(column="c1")
        assert agents(hub) == {"object_store" if transport == "native" else "Python"}
        root = f"hf://datasets/org/name@{commit}/data"
        assert dataset.files == tuple(f"{root}/part-{n}.parquet" for n in range(FILES))
        copy = list(dataset.files)
    with dataset_of(hub, copy, io=IO(transport=transport)) as dataset:
        assert rows_of(dataset) == expected()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_requests(hub, transport):
    transport = IO(transport=transport, hole_bytes=0)
    with dataset_of(hub, "hf://datasets/org/name", io=transport) as dataset:
        # The commit, a listing; of each file an address and a footer.
        assert hub.counts == {"info": 1, "tree": 1, "resolve": FILES, "cdn": FILES}
        assert all(
            request.method == "HEAD" for request in hub.requests if "resolve" in request.path
        )
        hub.reset()
        rows_of(dataset)
        counts = hub.counts
    # Two columns of four row groups a file; perhaps the first requests of the next pass.
    assert counts.keys() == {"cdn"}
    assert 2 * 4 * FILES <= counts["cdn"] <= 2 * 2 * 4 * FILES
    assert {request.status for request in hub.cdn.requests} == {206}
    # Footers are kept on disk, by the digest of the file: of another commit too.
    hub.reset()
    hub.commit("org/name", {"README.md": b"# The same data"})
    with dataset_of(hub, "hf://datasets/org/name", io=transport) as dataset:
        assert hub.counts == {"info": 1, "tree": 1}
        hub.reset()
        assert rows_of(dataset) == expected()
        assert hub.counts["resolve"] == FILES


def test_a_listing_has_pages(hub):
    hub.page_size = 2
    with dataset_of(hub, "hf://datasets/org/name") as dataset:
        assert rows_of(dataset) == expected()


def test_connections_are_used_again(hub):
    with dataset_of(hub, io=IO(transport="fsspec", concurrency=4)) as dataset:
        for _ in range(3):
            assert rows_of(dataset) == expected()
        assert hub.cdn.most_open <= 4 + 4
        assert hub.cdn.connections <= 4 + 4


def test_a_branch_stays_at_its_commit_within_a_run(hub):
    with dataset_of(hub) as dataset:
        before = dataset.files
        hub.commit("org/name", files_of(first=7))
        assert rows_of(dataset) == expected()
        hub.cdn.expire()  # the new addresses are of the old commit
        assert rows_of(dataset) == expected()
        state = dataset.state_dict()
    with dataset_of(hub) as dataset:
        assert dataset.files != before
        assert rows_of(dataset) == expected(first=7)
        with pytest.raises(SourceChangedError) as raised:
            dataset.load_state_dict(state)
    old, new = (f"commit {sha} of hf://datasets/org/name" for sha in commits(hub))
    assert f"Expected {old}, as when the state was saved, got {new} of the source" in str(
        raised.value
    )
    old = old.split()[1]
    with dataset_of(hub, f"hf://datasets/org/name@{old}/data/*.parquet") as dataset:
        dataset.load_state_dict(state)
        assert rows_of(dataset) == expected()


def commits(hub, name="org/name"):
    return list(hub.repos["datasets", name].commits)


def test_equal_files_of_another_commit_are_refused_too(hub):
    with dataset_of(hub) as dataset:
        state = json.loads(json.dumps(dataset.state_dict()))
        fingerprint = state["fingerprint"]
    hub.commit("org/name", {"README.md": b"# Other words"})
    with dataset_of(hub) as dataset:
        assert dataset.state_dict()["fingerprint"] != fingerprint
        with pytest.raises(SourceChangedError, match="Expected commit "):
            dataset.load_state_dict(state)


def test_urls_of_one_branch_share_a_commit(hub):
    hub.latency_s = 0.05
    hub.fault = lambda request: hub.commit("org/name", {"README.md": b"# Again"}) and None
    urls = [f"hf://datasets/org/name@main/data/part-{n}.parquet" for n in range(FILES)]
    with dataset_of(hub, [*urls, "hf://datasets/org/name@main"]) as dataset:
        assert hub.counts["info"] == 1
        assert len({file.partition("/data/")[0] for file in dataset.files}) == 1
        assert rows_of(dataset) == expected() * 2


def test_several_repositories(hub):
    hub.commit("org/other", files_of(first=3))
    urls = ["hf://datasets/org/name", "hf://datasets/org/other"]
    with dataset_of(hub, urls) as dataset:
        assert rows_of(dataset) == expected() + expected(first=3)
        state = dataset.state_dict()
    hub.commit("org/other", files_of(first=7))
    with dataset_of(hub, urls) as dataset:
        with pytest.raises(SourceChangedError, match=r"org/name, commit .*/org/other"):
            dataset.load_state_dict(state)
        many = {f"org/many-{n}": files_of() for n in range(30)}
    for name, files in many.items():
        hub.commit(name, files)
    with dataset_of(hub, [f"hf://datasets/{name}" for name in many]) as dataset:
        assert len(json.dumps(dataset.state_dict())) < 2048
        dataset.load_state_dict(dataset.state_dict())


def test_revisions_with_slashes_and_tags(hub):
    for branch in ("refs/convert/parquet", "refs/pr/3", "v1.0"):
        hub.commit("org/name", files_of(first=3), branch=branch)
        with dataset_of(hub, f"hf://datasets/org/name@{branch}/data/*.parquet") as dataset:
            assert rows_of(dataset) == expected(first=3)
    with dataset_of(hub, "hf://datasets/org/name@refs%2Fpr%2F3/data") as dataset:
        assert rows_of(dataset) == expected(first=3)


def test_models_and_names_with_odd_characters(hub):
    name = "da ta/a+b #1 @x%41.parquet"
    hub.commit("org/model", {name: file_of(5), "a@b.parquet": file_of(6)}, kind="models")
    with dataset_of(hub, "hf://org/model/da ta") as dataset:
        assert rows_of(dataset) == list(range(5 * ROWS, 6 * ROWS))
    with dataset_of(hub, "hf://org/model/a@b.parquet") as dataset:
        assert rows_of(dataset) == list(range(6 * ROWS, 7 * ROWS))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_expired_addresses_are_asked_for_again(hub, transport):
    hub.cdn.uses = 5
    # A small budget keeps no pages, so that each pass asks the store.
    with dataset_of(
        hub, memory_budget="64MB", io=IO(transport=transport, retries=0, concurrency=4)
    ) as dataset:
        for _ in range(3):
            assert rows_of(dataset) == expected()
    refused = [request for request in hub.cdn.requests if request.status == 403]
    assert refused
    assert hub.counts["resolve"] <= FILES + len(refused)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_requests_share_a_new_address(hub, transport):
    with dataset_of(hub, io=IO(transport=transport, retries=0)) as dataset:
        hub.cdn.expire()
        hub.reset()
        hub.latency_s = 0.2
        assert rows_of(dataset) == expected()
        assert hub.counts["resolve"] == FILES


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_address_that_stays_refused_is_an_error(hub, transport):
    with dataset_of(hub, io=IO(transport=transport)) as dataset:
        hub.reset()
        hub.cdn.fault = lambda request: Fault(403)
        with pytest.raises(StorageError, match="got HTTP 403 Forbidden") as raised:
            rows_of(dataset)
        assert "Signature" not in str(raised.value)
        assert "hf://datasets/org/name@" in str(raised.value)
        asked = hub.counts["resolve"]
        assert 1 <= asked <= 2 * FILES * 8  # once for a request


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_transient_faults_heal(hub, transport):
    count = iter(range(10_000))
    hub.fault = lambda request: Fault(503) if next(count) % 3 == 1 else None
    hub.cdn.fault = lambda request: Fault(503) if next(count) % 5 == 1 else None
    with dataset_of(hub, io=IO(transport=transport)) as dataset:
        assert rows_of(dataset) == expected()


@pytest.mark.parametrize("header", ["Retry-After", "RateLimit"])
def test_the_hub_says_when_to_try_again(hub, header):
    came = []
    wish = {"Retry-After": "2", "RateLimit": '"resolvers";r=0;t=2'}[header]

    def limit(request):
        if "resolve" not in request.path:
            return None
        came.append(request.came)
        return Fault(429, headers={header: wish}) if len(came) == 1 else None

    hub.fault = limit
    with pytest.warns(UserWarning, match="The store asks to wait 2 s .HTTP 429 Too Many Requests"):
        dataset = dataset_of(hub, "hf://datasets/org/name/data/part-0.parquet")
    assert rows_of(dataset) == list(range(ROWS))
    assert came[1] - came[0] >= 2


def test_a_listing_waits_for_the_limit_too(hub):
    limited = []

    def limit(request):
        if "tree" in request.path and not limited:
            limited.append(request)
            return Fault(429, headers={"Retry-After": "1"})
        return None

    hub.fault = limit
    with dataset_of(hub) as dataset:
        assert rows_of(dataset) == expected()
    assert limited


def test_429_for_ever_is_an_error(hub):
    hub.fault = lambda request: Fault(429)
    with pytest.raises(
        StorageError, match=r"got HTTP 429 Too Many Requests after 3 tries - at hf:"
    ):
        dataset_of(hub, io=IO(retries=2))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_small_files_come_from_the_hub_itself(hub, transport):
    hub.small_bytes = 1 << 30
    hub.repos["datasets", "org/name"].private = True
    options = {"endpoint": hub.url, "token": SECRET}
    with dataset_of(hub, storage_options=options, io=IO(transport=transport)) as dataset:
        assert rows_of(dataset) == expected()
        assert not hub.cdn.requests
        hub.ignores_ranges = True
        assert rows_of(dataset) == expected()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_answers_without_headers(hub, transport):
    hub.cdn.lacks_headers = True
    with dataset_of(hub, io=IO(transport=transport)) as dataset:
        assert rows_of(dataset) == expected()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_tokens(hub, transport, tmp_path):
    hub.repos["datasets", "org/name"].private = True
    options = {"endpoint": hub.url, "token": SECRET}
    cache = tmp_path / "raw"
    io_ = IO(transport=transport)
    with dataset_of(hub, storage_options=options, io=io_, cache=cache) as dataset:
        assert rows_of(dataset) == expected()
        assert SECRET not in repr(dataset)
        assert SECRET not in json.dumps(dataset.state_dict())
    # The CDN refuses a request with a token, and the Hub one without.
    assert {request.status for request in hub.cdn.requests} == {206}
    kept = [path for path in Path(os.environ["FASTLOAD_CACHE_DIR"]).rglob("*") if path.is_file()]
    kept += [path for path in cache.rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        data = path.read_bytes()
        assert SECRET.encode() not in data
        assert b"Signature" not in data


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            {"private": True},
            (
                "got HTTP 401 Unauthorized: the repository does not exist, or is private: run "
                "`hf auth login` .`huggingface-cli login` of older releases., set HF_TOKEN"
            ),
        ),
        (
            {"gated": True},
            (
                "gated repository datasets/org/name, got HTTP 401 Unauthorized: accept its "
                "conditions .*huggingface-cli login.*HF_TOKEN"
            ),
        ),
    ],
    ids=["private", "gated"],
)
def test_repositories_that_need_a_token(hub, prepare, message):
    for name, value in prepare.items():
        setattr(hub.repos["datasets", "org/name"], name, value)
    with pytest.raises(StorageError, match=message) as raised:
        dataset_of(hub)
    assert "- at hf://datasets/org/name" in str(raised.value)
    hub.reset()
    with pytest.raises(StorageError, match=r"HTTP 40[13]") as raised:
        dataset_of(
            hub, storage_options={"endpoint": hub.url, "token": "hf_wrong"}, io=IO(retries=5)
        )
    assert "hf_wrong" not in str(raised.value)
    assert len(hub.requests) <= 2 + 2 * FILES  # an error that comes again is not asked for again


def test_a_token_that_was_revoked(hub):
    hub.repos["datasets", "org/name"].gated = True
    options = {"endpoint": hub.url, "token": SECRET}
    with dataset_of(hub, storage_options=options) as dataset:
        hub.tokens = set()
        hub.cdn.expire()
        with pytest.raises(StorageError, match="Expected access to the gated repository"):
            rows_of(dataset)


def test_a_commit_that_was_deleted(hub):
    with dataset_of(hub) as dataset:
        hub.cdn.expire()
        hub.repos["datasets", "org/name"].commits.clear()
        with pytest.raises(SourceChangedError, match="replaced or deleted - at hf://"):
            rows_of(dataset)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("hf://datasets/org/none", StorageError, "repository datasets/org/none, got HTTP 401"),
        ("hf://org/name", StorageError, "is it a dataset[?] Write hf://datasets/org/name - at hf:"),
        ("hf://datasets/org/name@none", SourceNotFoundError, "a branch, tag or commit"),
        ("hf://datasets/org/name/none.parquet", SourceNotFoundError, "a file or directory"),
        ("hf://datasets/org/name/none/*.parquet", SourceNotFoundError, "match the glob"),
        (
            "hf://datasets/org/name/docs",
            SourceNotFoundError,
            "datasets/org/name/docs@refs|@refs/convert/parquet",
        ),
        ("hf://datasets/alone", ValueError, "Expected hf://datasets/org/name"),
        (
            "hf://buckets/org/name/a.parquet",
            ValueError,
            "HfFileSystem[(][)] and the path 'buckets/",
        ),
        ("hf://", ValueError, "Expected hf://datasets/org/name"),
    ],
)
def test_sources_that_are_not_there(hub, source, error, message):
    hub.commit("org/name", {"docs/index.md": b"words"})
    with pytest.raises(error, match=message) as raised:
        dataset_of(hub, source)
    assert "- at hf://" in str(raised.value)


@pytest.mark.parametrize("name", ["org/name", "org/name@main", "stanford-nlp/imdb.v2"])
def test_a_name_without_a_scheme(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SourceNotFoundError, match=f"of the Hugging Face Hub is hf://datasets/{name}"
    ):
        FastParquetDataset(name)
    os.makedirs(name)
    pq.write_table(pa.table({"x": [1]}), f"{name}/a.parquet")
    assert rows_of(FastParquetDataset(name)) == [1]


def test_a_path_below_a_directory_that_exists_suggests_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("data/train")
    with pytest.raises(SourceNotFoundError, match="holds `train`"):
        FastParquetDataset("data/trian")


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers(hub, method):
    dataset = dataset_of(hub, shuffle=True)
    hub.reset()
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=2,
        multiprocessing_context=method,
        timeout=WORKERS_S,
    )
    assert sorted(x for batch in loader for x in batch["x"].tolist()) == sorted(expected())
    # Workers have the addresses that the footers were read from.
    assert hub.counts.keys() == {"cdn"}


def test_workers_after_a_pass_of_this_process(hub):
    dataset = dataset_of(hub)
    assert rows_of(dataset) == expected()
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=WORKERS_S
    )
    assert sorted(x for batch in loader for x in batch["x"].tolist()) == sorted(expected())
    dataset = pickle.loads(pickle.dumps(dataset))
    assert sorted(rows_of(dataset)) == sorted(expected())


def test_expired_addresses_in_workers(hub):
    dataset = dataset_of(hub)
    hub.cdn.expire()
    loader = DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=WORKERS_S
    )
    assert sorted(x for batch in loader for x in batch["x"].tolist()) == sorted(expected())


def test_small_and_many_files_share_connections(hub):
    small = pa.table({"x": range(100)})
    sink = io.BytesIO()
    pq.write_table(small, sink)
    files = {f"{n}.parquet": sink.getvalue() for n in range(60)}
    hub.commit("org/small", files)
    source = "hf://datasets/org/small"
    with dataset_of(hub, source, columns=None, io=IO(transport="native", concurrency=4)) as dataset:
        assert rows_of(dataset) == list(range(100)) * 60
        assert agents(hub) == {"Python"}
        assert hub.cdn.connections <= 2 * 4  # of the process, and of its passes


def test_more_large_files_than_places(hub):
    files = {f"{n:02}.parquet": file_of(n, 1_800) for n in range(18)}
    hub.commit("org/many", files)
    with dataset_of(hub, "hf://datasets/org/many", io=IO(transport="native")) as dataset:
        hub.reset()
        assert rows_of(dataset) == list(range(18 * 1_800))
    assert agents(hub) == {"object_store", "Python"}


def test_the_cache_keeps_the_bytes(hub, tmp_path):
    cache = tmp_path / "raw"
    with dataset_of(hub, cache=cache) as dataset:
        assert rows_of(dataset) == expected()
    hub.commit("org/name", {"README.md": b"# The same data"})
    hub.reset()
    with dataset_of(hub, cache=cache) as dataset:
        assert rows_of(dataset) == expected()
    assert "cdn" not in hub.counts


def run(code, **environment):
    """Return what a program prints that has this environment, as `printed` does."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_TOKEN_PATH"):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        return in_its_own_process(printed, code)


PROGRAM = """
from fastload import FastParquetDataset
dataset = FastParquetDataset("hf://datasets/org/name/data", columns=["x"])
print(sum(len(batch["x"]) for batch in dataset))
"""


NATIVE_WORKERS = """
import sys
from torch.utils.data import DataLoader
from fastload import IO, FastParquetDataset
options = {"endpoint": sys.argv[1], "token": False}
if __name__ == "__main__":
    dataset = FastParquetDataset(
        "hf://datasets/org/name/data", columns=["x"], storage_options=options,
        io=IO(transport="native"),
    )
    for method in ("fork", "forkserver"):
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context=method, timeout=60
        )
        print(sum(sum(batch["x"].tolist()) for batch in loader))
    print(sum(sum(batch["x"].tolist()) for batch in dataset))
"""


def test_footers_then_a_fork_then_native_reads(hub, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(NATIVE_WORKERS)
    done = subprocess.run(
        [sys.executable, program, hub.url], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.stdout.split() == [str(sum(expected()))] * 3, done.stderr
    assert hub.counts["resolve"] == FILES


def test_the_environment(hub, tmp_path):
    hub.repos["datasets", "org/name"].private = True
    environment = {"HF_HOME": str(tmp_path), "HF_ENDPOINT": hub.url}
    out, err = run(PROGRAM, **environment, HF_TOKEN=SECRET)
    assert out.strip() == str(FILES * ROWS), err
    (tmp_path / "token").write_text(SECRET)  # as `hf auth login` writes it
    out, err = run(PROGRAM, **environment)
    assert out.strip() == str(FILES * ROWS), err
    hub.reset()
    _, err = run(PROGRAM, **environment, HF_HUB_OFFLINE="1")
    assert "got HF_HUB_OFFLINE=1: pass the directory that huggingface_hub.snapshot_download" in err
    assert SECRET not in err
    assert not hub.requests


def test_without_huggingface_hub(hub, tmp_path):
    hide = "import sys; sys.modules['huggingface_hub'] = None\n"
    _, err = run(hide + PROGRAM, HF_HOME=str(tmp_path))
    assert "run `pip install huggingface_hub` - at hf://datasets/org/name/data" in err


def test_start_methods_exist():
    assert {"fork", "forkserver"} <= set(multiprocessing.get_all_start_methods())


def test_class_names_come_with_the_files(hub):
    table = pa.table({"label": [0, 1, -1], "x": [0.5, 1.5, 2.5]})
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    about = json.dumps({"info": {"features": features}})
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"huggingface": about}), sink)
    hub.commit("org/labels", {f"train-{n}.parquet": sink.getvalue() for n in range(3)})
    for _ in range(2):  # the second time from kept footers
        with dataset_of(hub, "hf://datasets/org/labels", columns=None) as dataset:
            assert dataset.schema["label"].names == ("cat", "dog")
            assert "2 labels: cat, dog" in repr(dataset)
            batch = next(iter(dataset))
            assert batch["label"].dtype == torch.int64
