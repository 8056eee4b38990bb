"""The arguments of a dataset: their types, and hints for keywords of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.source.stores.io import IO

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ATTRIBUTES", "KEYWORDS", "check_arguments"]

_OF_LOADER = "{name} is a parameter of DataLoader: DataLoader(dataset, batch_size=None, {name}=...)"
_PREPROCESS = "pass preprocess= for a function of a block of rows, or augment= for a random one"
_WINDOW = "pass shuffle=True, and shuffle_window= for the number of rows that are mixed at once"
_STEPS = "pass preprocess= or augment= when you make the dataset"
_FILTERS = "pass filters= when you make the dataset"
_SPLIT = "make two datasets, with split=(None, 0, 0.9) and split=(None, 0.9, 1)"

KEYWORDS = {
    **dict.fromkeys(
        ("num_workers", "persistent_workers", "worker_init_fn", "multiprocessing_context"),
        _OF_LOADER + "; the dataset reads on threads of its own, so 0 workers are usually fastest",
    ),
    **dict.fromkeys(("collate_fn", "sampler", "batch_sampler", "timeout"), _OF_LOADER),
    "prefetch_factor": "pass prefetch= for the number of batches to keep ready",
    **dict.fromkeys(("shuffle_buffer", "shuffle_buffer_size", "buffer_size"), _WINDOW),
    **dict.fromkeys(("transform", "transforms", "map_fn", "transform_spec"), _PREPROCESS),
    **dict.fromkeys(("num_threads", "n_jobs", "workers_count", "nthreads"), "pass threads="),
    **dict.fromkeys(("features", "fields", "schema_fields", "select", "usecols"), "pass columns="),
    **dict.fromkeys(("drop_columns", "ignore"), "pass exclude="),
    **dict.fromkeys(("filter", "predicate", "where"), "pass filters="),
    **dict.fromkeys(("path", "paths", "data_files", "input_dir", "dataset_url"), "pass source="),
    **dict.fromkeys(("num_replicas", "num_shards", "shard_count"), "pass world_size= and rank="),
    **dict.fromkeys(("shard", "cur_shard", "shard_id"), "pass rank= and world_size="),
    **dict.fromkeys(("cache_dir", "local_cache", "cache_location"), "pass cache="),
    **dict.fromkeys(("fillna", "fill_value", "fill"), 'pass nulls="zero", or Column(fill=...)'),
    **dict.fromkeys(("shuffle_seed", "random_state", "generator"), "pass seed="),
    "num_epochs": "iterate over the dataset once for each epoch",
    "device": "wrap the dataset: fastload.DevicePrefetcher(dataset, device)",
}
"""What to write instead of keywords of other loaders."""

ATTRIBUTES = {
    **dict.fromkeys(("columns", "column_names", "names"), "write list(dataset.schema)"),
    **dict.fromkeys(("features", "dtypes", "types"), "write dataset.schema"),
    **dict.fromkeys(("num_columns", "n_columns", "width"), "write len(dataset.schema)"),
    **dict.fromkeys(("shape", "size"), "write dataset.num_rows and len(dataset.schema)"),
    "limit": "call dataset.head(n), or pass limit= to a dataset",
    **dict.fromkeys(("map", "map_batches", "with_transform", "set_transform"), _STEPS),
    **dict.fromkeys(("filter", "where", "query"), _FILTERS),
    **dict.fromkeys(("split", "random_split", "train_test_split"), _SPLIT),
    **dict.fromkeys(("select", "select_columns", "remove_columns"), "pass columns= or exclude="),
    **dict.fromkeys(("rename", "rename_column"), 'pass columns={"new": "old", "*": ...}'),
    **dict.fromkeys(("with_format", "set_format", "cast"), "pass columns= with dtypes"),
    **dict.fromkeys(("shuffle", "shuffled"), "pass shuffle=True when you make the dataset"),
    **dict.fromkeys(("batch", "batched"), "pass batch_size= when you make the dataset"),
    **dict.fromkeys(("shard", "split_by_node"), "pass rank= and world_size="),
    **dict.fromkeys(("skip", "resume"), "to continue a run, call load_state_dict(state)"),
    "epoch": 'write dataset.state_dict()["epoch"]; set_epoch(n) sets the epoch',
    **dict.fromkeys(("to", "cuda"), "wrap the dataset: fastload.DevicePrefetcher(dataset, device)"),
    **dict.fromkeys(("to_pandas", "to_table", "to_arrow"), "call it on a Batch: dataset.head(n)"),
}
"""What to write instead of attributes of other libraries' datasets."""


def check_arguments(arguments: Mapping[str, object]) -> None:
    """Check the types of arguments and the range of numbers; others check what depends on files.

    Args:
        arguments: the arguments of the dataset by name.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """
    for name, kind in _TYPES.items():
        value = arguments[name]
        if value is not None and type(value) is not kind:
            raise TypeError(f"Expected {name} as {kind.__name__}, got {value!r}")
    io = arguments["io"]
    if io is not None and not isinstance(io, IO):
        raise TypeError(f"Expected io as fastload.IO, got {io!r}")
    for name, choices in _CHOICES.items():
        if arguments[name] not in choices:
            *first, last = map(repr, choices)
            raise ValueError(
                f"Expected {name} to be {', '.join(first)} or {last}, got {arguments[name]!r}"
            )
    for name, least in _LEAST.items():
        value = arguments[name]
        if isinstance(value, int) and value < least:
            raise ValueError(f"Expected {name} to be at least {least}, got {value}")


_TYPES: dict[str, type] = {
    **dict.fromkeys(("batch_size", "limit", "shuffle_window", "seed", "rank", "world_size"), int),
    **dict.fromkeys(("threads", "prefetch"), int),
    **dict.fromkeys(("shuffle", "drop_last", "provenance"), bool),
}
_CHOICES: dict[str, tuple[object, ...]] = {
    "pin_memory": (True, False, "auto"),
    "on_error": ("raise", "skip"),
    "nulls": ("raise", "zero", "mask"),
}
_LEAST = {"shuffle_window": 1, "threads": 0, "prefetch": 0}
