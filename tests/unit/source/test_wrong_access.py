"""What is wrong with the access to a store, and stays wrong, is said at once."""

from __future__ import annotations

import pytest

from fastload import FastParquetDataset, StorageError


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("s3://bucket/a", {"profile": "none-such"}, r"profile \(none-such\) could not be found"),
        ("s3://bucket/a", {"key": "a"}, "Partial credentials found .*missing: aws_secret_access"),
        ("s3://No Bucket/a", {"key": "a", "secret": "b"}, 'Invalid bucket name "No Bucket"'),
        ("gs://bucket/a", {"endpoint_url": "host:9000", "token": "anon"}, "NonHttpUrl.*host:9000"),
    ],
)
def test_a_wrong_setting_is_not_tried_again(url, options, said):
    pytest.importorskip("s3fs")
    with pytest.raises(StorageError, match=said) as raised:
        FastParquetDataset(url, storage_options=options)
    assert "tries" not in str(raised.value)
