"""Image: encoded images of a column become one tensor.

The oracle is a plain loop over pyarrow's rows with `fastload.images.decode`, and with seeds that
`stream_key` makes of the dataset's seed, the epoch, the image's number and the row.
"""

import multiprocessing
import sys
from functools import cache, partial

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastload.images.row_decoder
from fastload import (
    Cache,
    Column,
    ColumnNotFoundError,
    FastParquetDataset,
    Image,
    NullValueError,
    Pack,
    SchemaError,
    TokenBudget,
    kernel,
    mix,
    per_row,
    prepare,
)
from fastload.images import center_box, crop_box, decode, flips
from fastload.images.pixels import _opencv
from fastload.plan.permutation import stream_key
from fastload.testing import assert_ranks_agree, assert_resumes_exactly
from support.data_files import DIRECTORY
from support.image_files import encoded, kinds, picture

ROWS = 90
FIRST_NUMBER = 1 << 32
RANDOM = Image("image", 24, crop="random", flip=True)
FIXED = Image("image", (24, 32))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Rows of all kinds of images; every seventh value of `holes` is null or no image."""
    directory = tmp_path_factory.mktemp("images")
    sizes = [encoded(picture(40 + n, 60 - n), "JPEG") for n in range(20)]
    images = [*kinds().values(), *sizes]
    images = [images[n % len(images)] for n in range(ROWS)]
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "image": [{"bytes": data, "path": f"{n}.jpg"} for n, data in enumerate(images)],
            "jpeg": images,
            "holes": [
                None if n % 14 == 0 else data[: len(data) // 4] if n % 7 == 0 else data
                for n, data in enumerate(images)
            ],
            "tokens": [[n] * (n % 5 + 1) for n in range(ROWS)],
        }
    )
    for part, start in enumerate((0, 50)):
        rows = table.slice(start, 50)
        pq.write_table(rows, directory / f"{part}.parquet", row_group_size=17)
    return directory


@cache
def stored(path, column="jpeg"):
    """The encoded image of each row, by id."""
    return pq.read_table(path, columns=[column])[column].to_pylist()


def expected(data, spec, row=0, epoch=0, seed=0, number=FIRST_NUMBER):
    """The pixels of a row as a loop makes them."""
    file, in_file = divmod(row, 50)
    drawn = stream_key(seed, epoch, 3, number, file, in_file)
    box = None
    if spec.crop == "center":
        box = partial(center_box, size=spec.sides)
    elif spec.crop == "random":
        box = partial(crop_box, seed=drawn, scale=spec.scale, ratio=spec.ratio)
    flip = spec.flip and flips(drawn)
    pixels = decode(data, mode=spec.mode, box=box, size=spec.sides, flip=flip)
    return torch.from_numpy(pixels.transpose(2, 0, 1) if spec.layout == "chw" else pixels)


def dataset_of(path, spec, columns=None, **options):
    columns = {"id": "id", "x": spec, **(columns or {})}
    options = {"batch_size": 16, "threads": 1, "memory_budget": "64MB", **options}
    return FastParquetDataset(path, columns=columns, **options)


def check(batches, path, spec, **how):
    """Check every image of an epoch, and return the ids in the order of the batches."""
    ids = []
    for batch in batches:
        assert batch["x"].dtype == torch.uint8
        assert batch["x"].is_contiguous()
        for row, pixels in zip(batch["id"].tolist(), batch["x"], strict=True):
            assert pixels.equal(expected(stored(path)[row], spec, row, **how)), row
            ids.append(row)
    return ids


SPECS = [
    FIXED,
    RANDOM,
    Image("jpeg", 24, crop=None),
    Image("jpeg", (20, 12), crop="random", layout="hwc", scale=(0.3, 0.9), ratio=(1, 1)),
    Image("image", 16, flip=True, mode="L"),
    Image("image.bytes", 16, mode="L", layout="hwc"),
    Image("image", 300),  # OpenCV resizes on threads of its own
]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
@pytest.mark.parametrize("threads", [0, 1, 4])
def test_pixels_are_those_of_a_loop(path, spec, threads):
    with dataset_of(path, spec, threads=threads) as dataset:
        assert check(dataset, path, spec) == list(range(ROWS))
        assert dataset.schema["x"].dtype == torch.uint8
        assert dataset.schema["x"].shape == spec.shape == dataset.head(1)["x"].shape[1:]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("spec", [Image("image", 300), RANDOM], ids=repr)
def test_workers(path, spec, method):
    with dataset_of(path, spec, shuffle=True, seed=3) as dataset:
        dataset.head(2)  # OpenCV's threads have started before the workers are forked
        context = multiprocessing.get_context(method)
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context=context
        )
        assert sorted(check(loader, path, spec, seed=3)) == list(range(ROWS))


@pytest.mark.parametrize("spec", [FIXED, RANDOM], ids=repr)
def test_ranks_and_resume(path, spec):
    make = partial(dataset_of, path, spec, shuffle=True, seed=5)
    assert_ranks_agree(make, world_sizes=(1, 3))
    assert_resumes_exactly(make, after=[1, 4])
    assert_resumes_exactly(make, after=[2], num_workers=2)


def test_canonical_ranks(path):
    ids = []
    for rank in range(2):
        options = {"global_batch_size": 12, "canonical_ranks": 4, "uneven": "drop"}
        with dataset_of(
            path, RANDOM, batch_size=1024, rank=rank, world_size=2, shuffle=True, **options
        ) as dataset:
            ids += check(dataset, path, RANDOM)
    assert len(ids) == len(set(ids)) == ROWS // 4 * 4


def test_each_epoch_draws_anew(path):
    with dataset_of(path, RANDOM, shuffle=True) as dataset:
        epochs = [{}, {}]
        for epoch, images in enumerate(epochs):
            for batch in dataset:
                assert check([batch], path, RANDOM, epoch=epoch)
                images.update(zip(batch["id"].tolist(), batch["x"], strict=True))
    assert sum(not epochs[0][row].equal(epochs[1][row]) for row in range(ROWS)) > ROWS * 0.9


def test_copies_of_a_row_are_one_image(path):
    weights = [1.0] * 45 + [0.0] * 45
    with dataset_of(path, RANDOM, weights=weights, shuffle=True) as dataset:
        assert sorted(check(dataset, path, RANDOM)) == sorted([*range(45)] * 2)


def test_a_mix(path):
    parts = {str(seed): dataset_of(path, RANDOM, seed=seed, batch_size=15) for seed in (1, 2)}
    with mix(parts, stop="all") as mixed:
        ids = [check([b], path, RANDOM, seed=int(b.source)) for b in mixed]
    assert sum(map(len, ids)) == 2 * ROWS


def test_rows_by_number_draw_as_in_epoch_0(path):
    rows = [70, 3, 3]
    with dataset_of(path, RANDOM, provenance=True) as dataset:
        dataset.set_epoch(4)
        taken = dataset.take(rows)
        assert taken["__row__"].tolist() == [20, 3, 3]
        assert check([taken], path, RANDOM) == rows
        assert dataset.by_index()[70]["x"].equal(expected(stored(path)[70], RANDOM, 70))
        assert check([dataset.head(5)], path, RANDOM) == [0, 1, 2, 3, 4]


def test_two_images_of_a_row_draw_on_their_own(path):
    spec = Image("jpeg", 16, crop="random")
    with dataset_of(path, spec, {"y": spec}) as dataset:
        batch = dataset.head(8)
    assert check([batch], path, spec) == [*range(8)]
    for row in range(8):
        second = expected(stored(path)[row], spec, row, number=FIRST_NUMBER + 1)
        assert batch["y"][row].equal(second)


@kernel(["id", "x"], {"seed": "uint64", "first": "uint8"}, random=True)
def drawn(_ids, pixels, seeds, seed, first):
    for row in range(len(seeds)):
        seed[row] = seeds[row]
        first[row] = pixels[row, 0, 0, 0]


def seen(batch, seeds):
    return {"seed": seeds, "mean": batch["x"].float().mean((1, 2, 3))}


def test_functions_after_an_image_keep_their_seeds(path):
    mean = per_row(lambda pixels: float(pixels.float().mean()), "x", "before")
    with dataset_of(path, RANDOM, augment=seen) as dataset:
        batch = next(iter(dataset))
    assert batch["seed"].numpy().tolist() == [stream_key(0, 0, 3, 0, 0, n) for n in range(16)]
    assert batch["mean"].equal(batch["x"].float().mean((1, 2, 3)))
    with dataset_of(path, FIXED, preprocess=mean, augment=seen) as dataset:
        batch = next(iter(dataset))
    assert batch["seed"].numpy().tolist() == [stream_key(0, 0, 3, 0, 0, n) for n in range(16)]
    assert torch.allclose(batch["before"], batch["mean"])


@pytest.mark.parametrize("spec", [FIXED, RANDOM], ids=repr)
def test_a_kernel_after_an_image_keeps_its_seeds(path, spec):
    with dataset_of(path, spec, augment=drawn) as dataset:
        batch = next(iter(dataset))
    expected_seeds = [stream_key(0, 0, 3, 0, 0, n) for n in range(16)]
    assert batch["seed"].numpy().tolist() == expected_seeds
    assert batch["first"].equal(batch["x"][:, 0, 0, 0])


def test_preprocess_gets_the_bytes_of_random_images(path):
    length = per_row(len, "x", "length")
    with dataset_of(path, RANDOM, preprocess=length) as dataset:
        assert dataset.schema["x"].shape == RANDOM.shape
        batch = next(iter(dataset))
    assert batch["length"].tolist() == [len(stored(path)[n]) for n in range(16)]
    assert check([batch], path, RANDOM) == [*range(16)]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("random", [False, True])
def test_broken_images_are_masked(path, threads, random):
    spec = Image("holes", 24, broken="mask", crop="random" if random else "center")
    with dataset_of(path, spec, threads=threads, batch_size=9) as dataset:
        assert list(dataset.schema) == ["id", "x", "x__valid"]
        batches = list(dataset)
        assert len(batches) == len(dataset) == ROWS // 9
        assert not dataset.take([14])["x__valid"].item()
    for batch in batches:
        valid = batch["id"] % 7 != 0
        assert batch["x__valid"].equal(valid)
        assert not batch["x"][~valid].any()
        for row, pixels in zip(batch["id"][valid].tolist(), batch["x"][valid], strict=True):
            assert pixels.equal(expected(stored(path)[row], spec, row))


@pytest.mark.parametrize("random", [False, True])
def test_a_broken_image_is_an_error_with_its_place(path, random):
    spec = Image("holes", 24, crop="random" if random else "center")
    with dataset_of(path, spec, filters=[("id", "in", [8, 57, 63])]) as dataset:
        with pytest.raises(RuntimeError, match=r"Image `x` .* - at .*1\.parquet, row 13") as caught:
            next(iter(dataset))
        assert isinstance(caught.value.__cause__, ValueError)


def test_a_null_is_an_error(path):
    with dataset_of(path, Image("holes", 24), nulls="zero") as dataset:
        with pytest.raises(
            NullValueError,
            match=r"got 7 \(write Image\('holes', ..., broken=\"mask\"\)\) - at .*0\.parquet",
        ):
            iter(dataset)
        with pytest.raises(NullValueError, match="column `holes`, page 0, row 0"):
            dataset.take([0])


def test_a_null_struct_is_masked(tmp_path):
    data = kinds()["png"]
    rows = [{"bytes": data, "path": None}, None, {"bytes": None, "path": "a"}]
    pq.write_table(pa.table({"image": rows}), tmp_path / "a.parquet")
    columns = [Image("image", 8, broken="mask")]
    with FastParquetDataset(tmp_path / "a.parquet", columns=columns, nulls="mask") as dataset:
        batch = next(iter(dataset))
    assert batch["image__valid"].tolist() == [True, False, False]
    assert batch["image"][0].equal(expected(data, columns[0]))


@pytest.mark.parametrize("spec", [FIXED, Image("holes", 24, broken="mask")], ids=repr)
def test_the_cache_keeps_pixels(path, tmp_path, spec, monkeypatch):
    options = {"cache": tmp_path / "cache", "shuffle": True}
    with dataset_of(path, spec, shuffle=True) as plain:
        epochs = [list(plain), list(plain)]
    with dataset_of(path, spec, **options) as dataset:
        first = list(dataset)
        refuse_decoding(monkeypatch)
        second = list(dataset)
    with dataset_of(path, spec, **options) as again:
        third = list(again)
    for prepared, decoded in zip(
        [*first, *second, *third], [*epochs[0], *epochs[1], *epochs[0]], strict=True
    ):
        assert prepared.keys() == decoded.keys()
        assert all(prepared[name].equal(decoded[name]) for name in decoded)
    with (
        dataset_of(path, Image(spec.name, 20, broken=spec.broken), **options) as other,
        pytest.raises(RuntimeError, match="refused"),
    ):
        next(iter(other))


def refuse_decoding(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("refused")

    monkeypatch.setattr(fastload.images.row_decoder, "decode", refuse)


def test_the_cache_of_another_opencv_is_not_used(path, tmp_path, monkeypatch):
    options = {"cache": Cache(tmp_path / "cache", key="v1")}
    with dataset_of(path, FIXED, **options) as dataset:
        next(iter(dataset))
    refuse_decoding(monkeypatch)
    with dataset_of(path, FIXED, **options) as dataset:
        next(iter(dataset))
    for version, spec in ((cv2.__version__, Image("image", (24, 32), crop=None)), ("6.0.0", FIXED)):
        monkeypatch.setattr(fastload.images.row_decoder, "opencv_version", lambda v=version: v)
        with (
            dataset_of(path, spec, **options) as dataset,
            pytest.raises(RuntimeError, match="refused"),
        ):
            next(iter(dataset))


@pytest.mark.parametrize("spec", [FIXED, RANDOM], ids=repr)
def test_prepared_files_hold_pixels_or_bytes(path, tmp_path, spec):
    with dataset_of(path, spec) as dataset:
        written = prepare(dataset, tmp_path / "prepared", progress=False)
    with FastParquetDataset(written, batch_size=ROWS) as prepared:
        batch = next(iter(prepared))
        if spec is FIXED:
            assert check([batch], path, spec) == [*range(ROWS)]
        else:
            assert batch["x"].tolist() == stored(path)


def halved(block):
    return {name: value[::2] for name, value in block.items()}


@pytest.mark.parametrize("spec", [FIXED, RANDOM], ids=repr)
def test_steps_that_drop_rows(path, tmp_path, spec):
    with dataset_of(path, spec, preprocess=halved, cache=tmp_path / "cache") as dataset:
        assert dataset.num_rows < ROWS
        batches = list(dataset)
    assert {batch["x"].shape[1:] for batch in batches} == {spec.shape}
    if spec is FIXED:
        assert len(check(batches, path, spec)) == dataset.num_rows


def test_batches_by_tokens(path):
    columns = {"tokens": "tokens"}
    with dataset_of(path, RANDOM, columns, batch_size=TokenBudget("tokens", 40)) as dataset:
        assert check(dataset, path, RANDOM) == [*range(ROWS)]


def test_the_other_columns_leave_out_the_struct(path):
    with FastParquetDataset(path, columns={"x": FIXED, "*": ...}, exclude=["holes"]) as dataset:
        assert list(dataset.schema) == ["x", "id", "jpeg", "tokens"]
        assert "x" in repr(dataset)
        assert "steps" not in repr(dataset)
    with FastParquetDataset(path, columns=["id", Image("jpeg", 8)]) as dataset:
        assert dataset.head(2)["jpeg"].shape == (2, 3, 8, 8)


def test_real_files():
    file = DIRECTORY / "real" / "smoosense_images.parquet"
    if not file.exists():
        pytest.skip("needs FASTLOAD_TEST_DATA")
    schema = pq.read_schema(file)
    column = next(field.name for field in schema if pa.types.is_binary(field.type))
    spec = Image(column, 224, crop="random", flip=True)
    data = pq.read_table(file)[column].to_pylist()
    with FastParquetDataset(file, columns={"x": spec}, batch_size=2) as dataset:
        images = torch.cat([batch["x"] for batch in dataset])
    for row, pixels in enumerate(images):
        assert pixels.equal(expected(data[row], spec, row))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, 2), TypeError, "Expected a column name of Image to be a str, got 1"),
        (("a",), TypeError, "Image needs size, got none"),
        (("a", 2.5), TypeError, r"Expected size of Image as an int or \(height, width\), got 2.5"),
        (("a", (1, 2, 3)), TypeError, "Expected size of Image as an int"),
        (("a", 0), ValueError, r"Expected size of Image in \[1, 32767\], got 0"),
        (("a", 8, "center"), TypeError, "Image takes name, size by position, got 3 arguments"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Image(*arguments)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"crop": "middle"}, ValueError, "crop of Image to be None, 'center' or 'random', got 'mi"),
        ({"flip": 0.5}, TypeError, "Expected flip of Image to be a bool, got 0.5"),
        ({"mode": "BGR"}, ValueError, "Expected mode of Image to be 'RGB' or 'L', got 'BGR'"),
        ({"layout": "nchw"}, ValueError, "Expected layout of Image to be 'chw' or 'hwc', got"),
        ({"broken": "skip"}, ValueError, "Expected broken of Image to be 'raise' or 'mask', got"),
        ({"scale": 0.5, "crop": "random"}, TypeError, "Expected scale of Image as .least, largest"),
        ({"ratio": (2, 1), "crop": "random"}, ValueError, "above 0, in this order, got"),
        ({"scale": (0.5, 2), "crop": "random"}, ValueError, "shares of an image, up to 1, got"),
        ({"scale": (0.5, 1)}, ValueError, 'Expected crop="random" of Image beside scale'),
        ({"cropp": None}, TypeError, "Image has no parameter 'cropp': did you mean 'crop'?"),
        ({"valid": True}, TypeError, "Image has no parameter 'valid': pass broken=\"mask\""),
    ],
)
def test_wrong_keywords(keywords, error, message):
    with pytest.raises(error, match=message):
        Image("a", 8, **keywords)


def test_a_dataset_without_opencv(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    _opencv.cache_clear()
    with pytest.raises(ImportError, match=r"install it by .pip install opencv-python-headless"):
        FastParquetDataset(path, columns={"x": FIXED})
    monkeypatch.undo()
    _opencv.cache_clear()


def test_columns_without_images(path):
    with pytest.raises(SchemaError, match=r"Expected a binary .* got int64 - at column `id"):
        FastParquetDataset(path, columns={"x": Image("id", 8)})
    with pytest.raises(SchemaError, match=r"for Image `x`, got string - at column `image\.path`"):
        FastParquetDataset(path, columns={"x": Image("image.path", 8)})
    with pytest.raises(ColumnNotFoundError, match="img"):
        FastParquetDataset(path, columns={"x": Image("img", 8)})
    with pytest.raises(ValueError, match="`x__valid` is used twice"):
        dataset_of(path, Image("holes", 8, broken="mask"), {"x__valid": Column("id")})
    with pytest.raises(ValueError, match="Expected no Image beside pack, got one for `x`"):
        FastParquetDataset(
            path, columns={"x": FIXED, "tokens": "tokens"}, pack=Pack("tokens", 8), batch_size=2
        )
