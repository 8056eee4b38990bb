"""Decimals without digits behind the point, which warehouses use for ids."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Codes, FastParquetDataset, Hash

IDS = [1, -5, 10**17 + 3, 7, 10**17 + 3, 0]
SMALL = [1, -5, 8, 7, 8, 0]


def write(path, values, precision, **how):
    ids = pa.array(map(Decimal, values), pa.decimal128(precision, 0))
    table = pa.table({"d": ids, "i": values})
    pq.write_table(table, path, row_group_size=4, **how)


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("precision", [9, 15, 16, 18, 19, 30, 38])
def test_ids(tmp_path, precision, dictionary, integers):
    """More than 15 digits are int64, and each id has the hash and the code of the integer."""
    values = IDS if precision >= 18 else SMALL
    how = {"use_dictionary": dictionary, "store_decimal_as_integer": integers}
    write(tmp_path / "a.parquet", values, precision, **how)
    known = [7, max(values)]
    columns = {
        "d": "d",
        "hash": Hash("d", 1000, seed=3),
        "hash_of_int": Hash("i", 1000, seed=3),
        "code": Codes("d", known, unknown=-1),
        "code_of_int": Codes("i", known, unknown=-1),
    }
    dtype = torch.int64 if precision > 15 else torch.float64
    for shuffle in (False, True):
        with FastParquetDataset(tmp_path / "a.parquet", columns=columns, shuffle=shuffle) as ds:
            (batch,) = ds
        assert batch["d"].dtype == dtype
        assert sorted(batch["d"].tolist()) == sorted(values)
        assert torch.equal(batch["hash"], batch["hash_of_int"])
        assert torch.equal(batch["code"], batch["code_of_int"])


def test_an_id_that_does_not_fit(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, [1], 38)
    pq.write_table(pa.table({"d": pa.array([Decimal(2**63)], pa.decimal128(38, 0))}), path)
    for columns in (["d"], {"d": Hash("d", 10)}, {"d": Codes("d", [1], unknown=-1)}):
        with (
            FastParquetDataset(path, columns=columns) as dataset,
            pytest.raises(ValueError, match=r"fits int64, got 9223372036854775808 - at .*`d`"),
        ):
            list(dataset)
    with FastParquetDataset(path, columns={"d": torch.float64}) as dataset:
        assert next(iter(dataset))["d"].tolist() == [2.0**63]


def test_decimals_with_a_point_are_no_keys(tmp_path):
    values = pa.array([Decimal("1.25")], pa.decimal128(18, 2))
    pq.write_table(pa.table({"d": values}), tmp_path / "a.parquet")
    with pytest.raises(TypeError, match=r"decimals of scale 0 to hash, got decimal\(18, 2\)"):
        FastParquetDataset(tmp_path / "a.parquet", columns={"d": Hash("d", 10)})
    with FastParquetDataset(tmp_path / "a.parquet", columns=["d"]) as dataset:
        assert dataset.schema["d"].dtype == torch.float64
