"""Location of the Parquet files of other writers."""

import os
from pathlib import Path

VARIABLE = "FASTLOAD_TEST_DATA"
DIRECTORY = Path(
    os.environ.get(VARIABLE, Path(__file__).resolve().parents[3].joinpath("shared", "data"))
)
