"""From paths to files and footers."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.errors import (
    CorruptFileError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from fastload.source import footers
from fastload.source.files import PathLike
from fastload.source.local_paths import find_files
from fastload.source.source import Source
from support.thrift import Struct, crafted


def write(path: Path, rows: int = 3, row_group_size: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"a": range(rows)})
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def paths_of(source: PathLike | Sequence[PathLike]) -> list[str]:
    return [file.path for file in find_files(source)]


def relative(paths: list[str], root: Path) -> list[str]:
    return [str(Path(path).relative_to(root)) for path in paths]


def test_directory_is_sorted_and_leaves_hidden_names_out(tmp_path: Path) -> None:
    names = ["b.parquet", "a/z.parquet", "a/a.pq", "c/no_extension"]
    for name in [*names, "_SUCCESS", ".crc", "_temporary/x.parquet", "a/.b.parquet"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert relative(paths_of(tmp_path), tmp_path) == sorted(names)


def test_linked_directories_are_walked_but_not_in_loops(tmp_path: Path) -> None:
    write(tmp_path / "data" / "a.parquet")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    other = write(tmp_path / "other" / "b.parquet")
    (tmp_path / "data" / "link").symlink_to(other.parent)
    (other.parent / "up").symlink_to(tmp_path / "data" / "link")
    (tmp_path / "data" / "same").symlink_to("link")
    assert relative(paths_of(tmp_path / "data"), tmp_path / "data") == [
        "a.parquet",
        "link/b.parquet",
        "same/b.parquet",
    ]


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize(
    "pattern",
    ["**", "**/", "**/*", "*", "**/*.parquet", "*/*.parquet", "**/**/*.parquet", "[a-z]*/**"],
)
def test_globs_leave_out_loops_of_links(tmp_path, monkeypatch, pattern, absolute):
    write(tmp_path / "d" / "k" / "b.parquet")
    for name in ("up", "up2", "k/up", "k/self"):  # 2**40 paths without a limit
        (tmp_path / "d" / name).symlink_to(
            tmp_path / "d" / "k" if name == "k/self" else tmp_path / "d"
        )
    (tmp_path / "d" / "copy").symlink_to("k")
    monkeypatch.chdir(tmp_path / "d")
    found = paths_of(f"{tmp_path}/d/{pattern}" if absolute else pattern)
    assert relative(found, tmp_path / "d") == ["copy/b.parquet", "k/b.parquet"]


def test_a_partition_that_links_to_another_is_read(tmp_path: Path) -> None:
    write(tmp_path / "d" / "k=1" / "a.parquet")
    (tmp_path / "d" / "k=2").symlink_to("k=1")
    for source in ("d", "d/*", "d/*/*.parquet"):
        found = relative(paths_of(tmp_path / source), tmp_path / "d")
        assert found == ["k=1/a.parquet", "k=2/a.parquet"]


def test_glob(tmp_path: Path) -> None:
    for name in ["b/x.parquet", "a/x.parquet", "a/y.parquet", "a/_y.parquet", "_t/x.parquet"]:
        write(tmp_path / name)
    assert relative(paths_of(f"{tmp_path}/*/x.parquet"), tmp_path) == [
        "a/x.parquet",
        "b/x.parquet",
    ]
    everything = ["a/x.parquet", "a/y.parquet", "b/x.parquet"]
    assert relative(paths_of(f"{tmp_path}/**"), tmp_path) == everything
    assert relative(paths_of(f"{tmp_path}/[ab]"), tmp_path) == everything
    assert relative(paths_of(f"{tmp_path}/_*/*.parquet"), tmp_path) == ["_t/x.parquet"]


def test_list_keeps_its_order(tmp_path: Path) -> None:
    b, a = write(tmp_path / "b.parquet"), write(tmp_path / "d" / "a.parquet")
    assert paths_of([str(b), a.parent, b]) == [str(b), str(a), str(b)]


def test_a_file_may_look_like_a_glob(tmp_path: Path) -> None:
    path = write(tmp_path / "part[0].parquet")
    write(tmp_path / "part0.parquet")
    assert paths_of(path) == [str(path)]


def test_file_urls(tmp_path: Path) -> None:
    path = write(tmp_path / "a b#?.parquet")
    url = path.as_uri()
    assert "%20" in url
    assert paths_of(url) == [str(path)]
    assert paths_of(url.replace("file://", "file://localhost")) == [str(path)]
    with pytest.raises(ValueError, match="without a host"):
        paths_of("file://server/data")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            "none.parquet",
            SourceNotFoundError,
            "found none; .* holds `a.parquet`.* - at .*none.parquet",
        ),
        (
            "none/*.parquet",
            SourceNotFoundError,
            r"match the glob, found none; .* holds .* - at .*\*.parquet",
        ),
        ("empty", SourceNotFoundError, "a directory with files .* - at .*empty"),
        ("a.parquet/b", SourceNotFoundError, "found none; .* - at .*b"),
    ],
)
def test_nothing_found(tmp_path: Path, source: str, error: type[Exception], message: str) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "a.parquet")
    for argument in (tmp_path / source, [str(tmp_path / "a.parquet"), str(tmp_path / source)]):
        with pytest.raises(error, match=message):
            Source.open(argument)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ([], SourceNotFoundError, "an empty list"),
        ("", SourceNotFoundError, "an empty str"),
        (7, TypeError, "a path or a list of paths, got int: 7"),
        (b"a", TypeError, "got bytes"),
        (pa.table({"a": [1]}), TypeError, "got Table: write rows in memory to a"),
        ([["a"]], TypeError, "got list"),
        ("nope://bucket/a.parquet", ValueError, "got the scheme nope:// - at nope://bucket"),
    ],
)
def test_what_is_no_path(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Source.open(source)


class Frame:
    def __repr__(self) -> str:
        raise AssertionError


def test_rows_in_memory_are_not_printed() -> None:
    with pytest.raises(TypeError, match="got Frame: write rows in memory to a Parquet file, and"):
        Source.open(Frame())  # type: ignore[arg-type]


def test_row_groups_in_canonical_order(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.parquet", rows=5),
        write(tmp_path / "b.parquet", rows=0),
        write(tmp_path / "c.parquet", rows=3),
    ]
    source = Source.open(tmp_path)
    assert [file.path for file in source.files] == [str(path) for path in paths]
    real = [pq.ParquetFile(path).metadata for path in paths]
    expected = [
        (meta.row_group(index).num_rows, number, index)
        for number, meta in enumerate(real)
        for index in range(meta.num_row_groups)
    ]
    arrays = (source.row_group_rows, source.row_group_file, source.row_group_index)
    assert list(zip(*(array.tolist() for array in arrays), strict=True)) == expected
    assert {str(array.dtype) for array in arrays} == {"int64"}
    assert not any(array.flags.writeable for array in arrays)
    assert source.num_rows == 8
    status = paths[0].stat()
    assert (source.files[0].size, source.files[0].mtime_ns) == (status.st_size, status.st_mtime_ns)


def test_a_footer_larger_than_the_first_read(tmp_path: Path) -> None:
    table = pa.table({f"column_with_a_long_name_{i}": [i] for i in range(2000)})
    pq.write_table(table, tmp_path / "wide.parquet")
    footer = Source.open(tmp_path).files[0].footer
    assert [".".join(leaf.path) for leaf in footer.leaves] == table.column_names


def test_fingerprint(tmp_path: Path) -> None:
    write(tmp_path / "one" / "a.parquet")
    write(tmp_path / "one" / "b.parquet", rows=4)
    first = Source.open(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    os.utime(tmp_path / "two" / "a.parquet")
    assert Source.open(tmp_path / "two").fingerprint == first.fingerprint
    assert len(first.fingerprint) == 32
    reordered = Source.open([tmp_path / "one" / "b.parquet", tmp_path / "one" / "a.parquet"])
    assert reordered.fingerprint != first.fingerprint
    write(tmp_path / "two" / "b.parquet", rows=5)
    assert Source.open(tmp_path / "two").fingerprint != first.fingerprint


def test_source_can_be_pickled(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", rows=5)
    source = Source.open(tmp_path)
    copy = pickle.loads(pickle.dumps(source))
    assert copy.fingerprint == source.fingerprint
    assert copy.row_group_rows.tolist() == [2, 2, 1]
    assert copy.files[0].footer.same_schema(source.files[0].footer)
    assert copy.files[0].footer.leaf_chunks(0).null_count == [0, 0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Not a Parquet file: expected at least 12 bytes, got 0"),
        (b"PAR1PAR1", "expected at least 12 bytes, got 8"),
        (b"PAR1" + b"x" * 100, "Not a Parquet file: expected it to end in PAR1"),
        (b"PAR1" + b"\xff\xff\xff\x7fPAR1", "Expected a footer inside the 12 bytes"),
        (b"PAR1" + b"\x07" * 64 + b"\x40\0\0\0PAR1", "Expected a readable Parquet footer, got"),
        (b"PAR1" + b"\0\0\0\0PAR1", "Expected a readable Parquet footer, got"),
    ],
)
def test_not_parquet(tmp_path: Path, content: bytes, message: str) -> None:
    write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(content)
    with pytest.raises(CorruptFileError, match=message) as caught:
        Source.open(tmp_path)
    assert str(caught.value).endswith(f" - at {tmp_path / 'b.parquet'}")


def test_a_footer_of_2_gb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with path.open("wb") as file:
        file.truncate(5 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\x00\x00\x00\x80PAR1")
    with pytest.raises(UnsupportedTypeError, match="below 2 GiB, got one of 2147483648 bytes"):
        Source.open(path)


def test_any_truncation_is_an_error(tmp_path: Path) -> None:
    content = write(tmp_path / "a.parquet").read_bytes()
    path = tmp_path / "b.parquet"
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(CorruptFileError):
            Source.open(path)


def test_a_damaged_footer_never_crashes(tmp_path: Path) -> None:
    content = bytearray(write(tmp_path / "a.parquet").read_bytes())
    path = tmp_path / "b.parquet"
    length = int.from_bytes(content[-8:-4], "little")
    for position in range(len(content) - 8 - length, len(content) - 8):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[position] ^= change
            path.write_bytes(damaged)
            try:
                footer = Source.open(path).files[0].footer
                for leaf in range(len(footer.leaves)):
                    footer.leaf_chunks(leaf)
            except (CorruptFileError, UnsupportedTypeError):
                continue


def test_column_chunk_outside_the_file(tmp_path: Path) -> None:
    content = write(tmp_path / "a.parquet", rows=2000, row_group_size=1000).read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    # The same footer, after the data was lost.
    (tmp_path / "cut.parquet").write_bytes(b"PAR1" + content[-8 - length :])
    footer = Source.open(tmp_path / "cut.parquet").files[0].footer
    with pytest.raises(
        CorruptFileError,
        match=r"a column chunk inside the .* - at .*cut\.parquet, row group 0, column `a`",
    ):
        footer.leaf_chunks(0)


@pytest.mark.parametrize("field", ["values", "uncompressed bytes", "bytes of values"])
def test_a_size_that_no_column_chunk_has(tmp_path: Path, field: str) -> None:
    def lie(metadata: Struct) -> None:
        chunk = metadata[4][1][1][0][1][1][1][0][3][1]
        owner, number = {"values": (chunk, 5), "uncompressed bytes": (chunk, 6)}.get(field) or (
            chunk[16][1],
            1,
        )
        owner[number] = (owner[number][0], 1 << 42)

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"s": ["a", "bc"] * 50}), path)
    path.write_bytes(crafted(path.read_bytes(), footer=lie))
    with pytest.raises(CorruptFileError, match=r"got 4398046511104 .*row group 0, column `s`$"):
        FastParquetDataset(path)


def test_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match=r"device, pipe or socket - at .*pipe"):
        Source.open(tmp_path / "pipe")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match=f"Can't open the file: Permission denied - at {path}"):
        Source.open(path)


def test_truncated_download(data_dir: Path) -> None:
    path = data_dir / "real" / "broken" / "nyc_yellow_2024-01.truncated.parquet"
    with pytest.raises(CorruptFileError, match=r"may be truncated.*truncated\.parquet"):
        Source.open(path)


def test_encrypted_files(data_dir: Path) -> None:
    data = data_dir / "parquet-testing" / "data"
    for name, message in [
        ("encrypt_columns_and_footer.parquet.encrypted", "plain footer"),
        ("uniform_encryption.parquet.encrypted", "plain footer"),
    ]:
        with pytest.raises(UnsupportedTypeError, match=rf"Expected .*{message}.* - at .*{name}"):
            Source.open(data / name)


def test_encrypted_columns_under_a_plain_footer(data_dir: Path) -> None:
    name = "encrypt_columns_plaintext_footer.parquet.encrypted"
    for path, encrypted in [(name, {4, 5}), (f"aes256/{name}", set(range(8)))]:
        source = Source.open(data_dir / "parquet-testing" / "data" / path)
        for footer in (source.files[0].footer, pickle.loads(pickle.dumps(source)).files[0].footer):
            for number, leaf in enumerate(footer.leaves):
                if number not in encrypted:
                    assert len(footer.leaf_chunks(number).compressed_bytes) == 1
                    continue
                with pytest.raises(
                    UnsupportedTypeError,
                    match=rf"a plain column, got an encrypted one.*{name}, .*`{leaf.path[0]}",
                ):
                    footer.leaf_chunks(number)


def test_row_groups_count_where_the_footer_says_zero(data_dir: Path) -> None:
    source = Source.open(data_dir / "parquet-testing" / "data" / "repeated_no_annotation.parquet")
    assert source.num_rows == 6


def test_a_relative_source_is_resolved_when_it_is_opened(tmp_path, monkeypatch):
    (tmp_path / "d" / "k=1").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "d" / "k=1" / "a.parquet")
    monkeypatch.chdir(tmp_path)
    for source in ("d", "d/*/a.parquet", "d/k=1/a.parquet", ["d/k=1"]):
        with FastParquetDataset(source, columns=["x"]) as dataset:
            assert dataset.files == (str(tmp_path / "d/k=1/a.parquet"),)
            monkeypatch.chdir(tmp_path / "other")
            assert [batch["x"].tolist() for batch in dataset] == [[1, 2]]
            monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("uniform_encryption.parquet.encrypted", "Expected a plain footer, got an encrypted one"),
        (
            "encrypt_columns_and_footer.parquet.encrypted",
            "Expected a plain footer, got an encrypted one",
        ),
        (
            "encrypt_columns_and_footer_bloom_filter.parquet.encrypted",
            "Expected a plain footer, got an encrypted one",
        ),
        (
            "encrypt_columns_plaintext_footer.parquet.encrypted",
            "Expected a plain column, got an encrypted one",
        ),
    ],
)
@pytest.mark.parametrize("filters", [None, [("double_field", ">", 0.0)]])
def test_datasets_of_encrypted_files_are_refused(
    data_dir: Path, name: str, message: str, filters: Any
) -> None:
    path = data_dir / "parquet-testing" / "data" / name
    with pytest.raises(
        UnsupportedTypeError,
        match=rf"{message}; fastload reads no encrypted Parquet.* - at .*{name}",
    ):
        FastParquetDataset(path, columns=["double_field"], filters=filters)


def test_footers_are_read_at_once_where_the_first_takes_long(tmp_path, monkeypatch):
    for number in range(4):
        write(tmp_path / f"{number}.parquet", rows=number + 1)
    together = threading.Barrier(3, timeout=30)
    read_local = footers._read_local

    def slow(file):
        if file.path.endswith("0.parquet"):
            time.sleep(2 * footers._ALONE_S)
        else:
            together.wait()
        return read_local(file)

    monkeypatch.setattr(footers, "_read_local", slow)
    assert [file.footer.num_rows for file in Source.open(tmp_path).files] == [1, 2, 3, 4]
