"""A record as `fastload-bench --json` writes it."""

from fastload.tools.bench.peers import PEERS

ROWS = 1_048_576
RATES = {
    "fastload": 13.4e6,
    "hand-written polars": 7.3e6,
    "tensors in RAM, by column": 20e6,
    "pyarrow + DataLoader": 0.9e6,
}
KNOWN = {peer.name: peer for peer in PEERS}


def _entry(name, mode, rate, **changes):
    own = name == "fastload"
    fields = {
        "name": name,
        "version": "1.2",
        "mode": mode,
        "rows_per_s": rate,
        "bytes_per_s": rate * 264,
        "first_batch_s": 0.09,
        "peak_rss_bytes": 365_000_000,
        "imports_rss_bytes": 200_000_000,
        "cpu_s": 0.15,
        "roof_fraction": 0.53 * rate / 13.4e6,
        "repeats": 3,
        "spread": 0.05,
        "family": KNOWN[name].family,
        "busy_cores": 1.9,
        "bottleneck": "decode" if own else "",
        "kept_bytes": 0,
        "first_epoch_s": 1.5 * ROWS / rate,
        "kept_roof": None,
        "kept_roof_fraction": None,
    }
    return {**fields, **changes}


def bench_record():
    """A record of fastload beside others, on the sample."""
    return {
        "fastload": "0.1.0",
        "created": "2026-11-24T12:00:00+00:00",
        "command": ["fastload-bench", "clicks/"],
        "interrupted": False,
        "host": {
            "cores": 2,
            "cpu": "AMD EPYC",
            "system": "Linux",
            "python": "3.11.7",
            "torch": "2.13.0",
            "other_cores": 0.1,
        },
        "dataset": {
            "files": ["/data/clicks/part-0.parquet", "/data/clicks/part-1.parquet"],
            "copies": 1,
            "columns": [f"c{j}" for j in range(40)],
            "left_out": {},
            "rows": ROWS,
            "row_groups": 4,
            "codecs": ["SNAPPY"],
            "stored_bytes": 78_000_000,
            "decoded_bytes": 277_000_000,
            "batch_size": 16384,
            "threads": None,
            "workers": 0,
        },
        "roof": 0.04,
        "results": [
            _entry(name, mode, rate * (1 if mode == "shuffled" else 1.9))
            for mode in ("shuffled", "in_order")
            for name, rate in RATES.items()
        ],
        "left_out": [],
        "profile": None,
    }
