"""The arguments of a dataset: their types, and hints for keywords of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastload.runtime.disk.cache import cache_of
from fastload.schema.argument_checks import check_choice
from fastload.schema.packs import Pack, TokenBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ATTRIBUTES",
    "KEYWORDS",
    "check_arguments",
    "check_packed",
    "check_slices",
    "refuse_beside_tokens",
]

_OF_LOADER = "{name} is a parameter of DataLoader: DataLoader(dataset, batch_size=None, {name}=...)"
_COLLATE = (
    "collate_fn is a parameter of DataLoader: DataLoader(dataset, batch_size=None, collate_fn=...) "
    "calls it with a finished batch. If it takes a list of rows, write "
    "DataLoader(dataset.by_index(), batch_size=..., collate_fn=...)"
)
_SAMPLER = (
    "the dataset divides its rows among the ranks, shuffle=True shuffles them, and weights= "
    "repeats some. For a sampler of torch, DataLoader(dataset.by_index(), {name}=...)"
)
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
    "timeout": _OF_LOADER,
    "collate_fn": _COLLATE,
    **dict.fromkeys(("sampler", "batch_sampler"), _SAMPLER),
    "prefetch_factor": "pass prefetch= for the number of batches to keep ready",
    **dict.fromkeys(("shuffle_buffer", "shuffle_buffer_size", "buffer_size"), _WINDOW),
    **dict.fromkeys(
        ("transform", "transforms", "target_transform", "map_fn", "transform_spec"), _PREPROCESS
    ),
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
    **dict.fromkeys(("skip", "skip_rows", "start"), "pass offset="),
    **dict.fromkeys(("sample_weight", "sample_weights", "sampling_weights"), "pass weights="),
    **dict.fromkeys(
        ("max_tokens", "tokens_per_batch", "batch_tokens", "token_budget"),
        "pass batch_size=TokenBudget(column, tokens) for batches by tokens",
    ),
    **dict.fromkeys(
        ("seq_length", "seq_len", "sequence_length", "max_length", "max_seq_length", "block_size"),
        "pass pack=Pack(column, length) to pack documents, or Pad(column, length) in columns= to "
        "pad and cut each list",
    ),
    **dict.fromkeys(
        ("skip_batches", "skip_first_batches", "skip_first_n"),
        "to leave out steps, call load_state_dict(fastload.skip(state, steps)); to continue a run, "
        "call load_state_dict(state)",
    ),
    "streaming": "leave streaming out: a dataset always reads the files while you iterate",
    "batched": "leave batched out and pass batch_size=: passes deliver batches, and functions of "
    "preprocess= get blocks of rows",
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
    "offset": "pass offset= when you make the dataset",
    **dict.fromkeys(("map", "map_batches", "with_transform", "set_transform"), _STEPS),
    **dict.fromkeys(("filter", "where", "query"), _FILTERS),
    **dict.fromkeys(("split", "random_split", "train_test_split"), _SPLIT),
    **dict.fromkeys(("select", "select_columns", "remove_columns"), "pass columns= or exclude="),
    **dict.fromkeys(("rename", "rename_column"), 'pass columns={"new": "old", "*": ...}'),
    **dict.fromkeys(("with_format", "set_format", "cast"), "pass columns= with dtypes"),
    **dict.fromkeys(("shuffle", "shuffled"), "pass shuffle=True when you make the dataset"),
    **dict.fromkeys(("batch", "batched"), "pass batch_size= when you make the dataset"),
    **dict.fromkeys(("shard", "split_by_node"), "pass rank= and world_size="),
    "skip": "to leave out steps, call load_state_dict(fastload.skip(state, steps))",
    "resume": "to continue a run, call load_state_dict(state)",
    "epoch": 'write dataset.state_dict()["epoch"]; set_epoch(n) sets the epoch',
    **dict.fromkeys(("to", "cuda"), "wrap the dataset: fastload.DevicePrefetcher(dataset, device)"),
    **dict.fromkeys(("to_pandas", "to_table", "to_arrow"), "call it on a Batch: dataset.head(n)"),
}
"""What to write instead of attributes of other libraries' datasets."""

SETTERS = {
    "epoch": "call dataset.set_epoch(n)",
    "weights": "call dataset.set_weights(weights), or pass weights= when you make the dataset",
}
"""What to write instead of setting attributes."""


def check_arguments(arguments: Mapping[str, object]) -> None:
    """Check the types of arguments and the range of numbers; others check what depends on files.

    Args:
        arguments: the arguments of the dataset by name.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """
    for name, kind in _TYPES.items():
        value = arguments[name]
        if type(value) is not kind and (value is not None or name in _NUMBERS):
            window = name == "shuffle" and type(value) is int
            advice = f": write shuffle=True, shuffle_window={value}" if window else ""
            raise TypeError(f"Expected {name} as {kind.__name__}, got {value!r}{advice}")
    batch_size = arguments["batch_size"]
    if batch_size is None:
        raise TypeError(
            "Expected batch_size as int, got None: a dataset makes batches, and batch.iter_rows() "
            "iterates over the rows of one. To have DataLoader collate rows, write "
            "DataLoader(dataset.by_index(), batch_size=...)"
        )
    if not (type(batch_size) is int or isinstance(batch_size, TokenBudget)):
        raise TypeError(f"Expected batch_size as int, got {batch_size!r}")
    _check_beside_slices(arguments)
    if arguments["weights"] is not None:
        _refuse_beside_weights(arguments)
    for name, choices in _CHOICES.items():
        check_choice(name, arguments[name], choices)
    for name, least in _LEAST.items():
        value = arguments[name]
        if isinstance(value, int) and value < least:
            raise ValueError(f"Expected {name} to be at least {least}, got {value}")


def check_slices(global_batch_size: int, slices: int, *, of_ranks: bool) -> None:
    """Check that each step takes as many rows of each canonical slice.

    Args:
        global_batch_size: the rows of a step.
        slices: number of slices.
        of_ranks: True if `slices` is the number of ranks, for want of `canonical_ranks`.

    Raises:
        ValueError: `slices` does not divide `global_batch_size`.
    """
    if global_batch_size % slices:
        advice = " (without canonical_ranks=, this is the number of ranks)" if of_ranks else ""
        raise ValueError(
            f"Expected a global_batch_size that canonical_ranks={slices} divides, got "
            f"{global_batch_size}{advice}"
        )


def check_packed(pack: Pack | None, rows: int) -> None:
    """Check that int32 counts the tokens of a batch of packed rows, as `__cu_seqlens` does.

    Args:
        pack: the way of packing; None = rows are not packed.
        rows: the rows of a batch.

    Raises:
        ValueError: a batch has too many tokens.
    """
    if pack is not None and rows * pack.length >= 2**31:
        raise ValueError(
            f"Expected batches of less than 2**31 tokens beside pack, got {rows} rows of "
            f"{pack.length}"
        )


def _check_beside_slices(arguments: Mapping[str, object]) -> None:
    """Refuse arguments that do not go with `global_batch_size`, or miss it."""
    by_tokens = isinstance(arguments["batch_size"], TokenBudget)
    if arguments["global_batch_size"] is None and arguments["canonical_ranks"] is None:
        return
    if arguments["global_batch_size"] is None and not by_tokens:
        raise ValueError("Expected global_batch_size beside canonical_ranks, got None")
    if arguments["global_batch_size"] is not None and arguments["batch_size"] != _BATCH_SIZE:
        raise ValueError(
            "Expected global_batch_size or batch_size, got both: leave out "
            f"batch_size={arguments['batch_size']!r}"
        )
    if arguments["uneven"] == "keep":
        raise ValueError(
            'Expected uneven="wrap", "drop" or "pad" beside global_batch_size, got "keep": every '
            "step has rows of all ranks"
        )
    if arguments["on_error"] == "skip":
        raise _no_skip("global_batch_size")


def _refuse_beside_weights(arguments: Mapping[str, object]) -> None:
    """Refuse arguments that do not go with `weights`."""
    if arguments["pack"] is not None:
        raise ValueError(f"Expected no pack beside weights, got {arguments['pack']!r}")
    if isinstance(arguments["batch_size"], TokenBudget):
        raise ValueError(  # noqa: TRY004 - the type is one that batch_size may have
            f"Expected batch_size as a number of rows beside weights, got {arguments['batch_size']}"
        )
    if arguments["on_error"] == "skip":
        raise _no_skip("weights")


def _no_skip(what: str) -> ValueError:
    """Return the error for on_error="skip" beside the argument `what`."""
    return ValueError(
        f'Expected on_error="raise" beside {what}, got "skip": leave damaged files out of source, '
        "or rewrite them without their damaged row groups"
    )


def refuse_beside_tokens(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that do not go with `pack` and `TokenBudget`.

    Args:
        arguments: the arguments of the dataset by name.

    Raises:
        TypeError: `pack` is not a Pack.
        ValueError: an argument does not go with the others.
    """
    pack, batch_size = arguments["pack"], arguments["batch_size"]
    if pack is not None and not isinstance(pack, Pack):
        call = f"{pack!r}, length" if isinstance(pack, str) else "column, length"
        raise TypeError(f"Expected pack as fastload.Pack, got {pack!r}: write Pack({call})")
    what = "a TokenBudget" if pack is None else "pack"
    if pack is not None and not isinstance(batch_size, int):
        raise ValueError(
            f"Expected batch_size as a number of packed rows beside pack, got {batch_size!r}"
        )
    if arguments["on_error"] == "skip":
        raise _no_skip(what)
    kept = cache_of(arguments["cache"])
    if pack is not None and arguments["preprocess"] is not None and not (kept and kept.prepared):
        raise ValueError(
            f"Expected cache= beside pack and preprocess, got {kept}: pass cache=directory, where "
            "the rows after preprocess are kept, and from where they are packed"
        )
    if pack is not None and arguments["augment"] is not None:
        raise ValueError(
            f"Expected no augment beside pack, got {arguments['augment']!r}: call functions of "
            "packed batches in the training loop"
        )


_BATCH_SIZE = 1024  # the default
_TYPES: dict[str, type] = {
    **dict.fromkeys(("global_batch_size", "canonical_ranks"), int),
    **dict.fromkeys(("limit", "shuffle_window", "seed", "rank", "world_size"), int),
    **dict.fromkeys(("threads", "prefetch", "offset"), int),
    **dict.fromkeys(("shuffle", "drop_last", "provenance"), bool),
}
_NUMBERS = ("seed", "prefetch", "offset")  # whose None would mean nothing
_CHOICES: dict[str, tuple[object, ...]] = {
    "pin_memory": (True, False, "auto"),
    "on_error": ("raise", "skip"),
    "nulls": ("raise", "nan", "zero", "mask"),
}
_LEAST = {
    "batch_size": 1,
    "shuffle_window": 1,
    "global_batch_size": 1,
    "canonical_ranks": 1,
    "threads": 0,
    "prefetch": 0,
    "offset": 0,
}
