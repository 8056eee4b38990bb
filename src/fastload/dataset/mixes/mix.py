"""fastload.mix: a dataset that draws each batch from one of several datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from numbers import Real
from textwrap import indent
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from fastload.dataset.mixes.mix_feed import MixedFeed
from fastload.dataset.mixes.mix_source import MixSource
from fastload.dataset.passes.feed import weakly
from fastload.dataset.passes.running_pass import Pass
from fastload.dataset.resumable import Resumable
from fastload.dataset.state import decode_position, encode_position, no_state
from fastload.dataset.step_rows import step_rows
from fastload.plan.mix.draws import Stop
from fastload.plan.mix.mix_plan import mix_batches, mix_plan, mix_step
from fastload.plan.mix.mixture import Mixture
from fastload.plan.position import Position
from fastload.plan.units.canonical import check_ranks
from fastload.runtime.hints import hinted_function, missing_attribute, shortened
from fastload.runtime.tracing import untraced
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.dataset.dataset import FastParquetDataset
    from fastload.dataset.epochs import PassStart
    from fastload.dataset.ranks import Rank
    from fastload.engine.stats import Stats
    from fastload.plan.mix.mix_plan import MixPlan
    from fastload.plan.options import Window
    from fastload.plan.position import WorkerSlot
    from fastload.plan.steps import StepOfLeg
    from fastload.runtime.native import core
    from fastload.schema.fields import Schema

__all__ = ["MixedDataset", "mix"]

_OF_EACH = "pass {name}= to each dataset"
_OF_ONE = (
    "a mix has several datasets; ask one of them, which you passed to fastload.mix, such as "
    'datasets["web"].{name}'
)
_ATTRIBUTES = {
    **{
        name: _OF_ONE.format(name=name)
        for name in (*("head", "take", "by_index", "num_rows", "epoch_bytes", "skipped", "trace"),)
    },
    **dict.fromkeys(("datasets", "source_names", "names", "keys"), "write mixed.sources"),
    "set_weights": "pass weights= to fastload.mix, or make another mix",
}
"""What to write instead of attributes that a dataset has, and a mix has not."""
_SKIP = (
    "to leave out steps, call load_state_dict(fastload.skip(state, steps)); to continue a run, "
    "call load_state_dict(state)"
)


@hinted_function(
    probabilities="pass weights=",
    probs="pass weights=",
    ratios="pass weights=",
    stopping_strategy='pass stop="first", "all" or "repeat"',
    skip_batches=_SKIP,
    skip_first_batches=_SKIP,
    batch_size=_OF_EACH,
    global_batch_size=_OF_EACH,
    canonical_ranks=_OF_EACH,
    shuffle=_OF_EACH,
    rank=_OF_EACH,
    world_size=_OF_EACH,
    mesh=_OF_EACH,
)
def mix(
    datasets: Mapping[str, FastParquetDataset] | Sequence[FastParquetDataset],
    weights: Mapping[str, float] | Sequence[float] | None = None,
    seed: int = 0,
    stop: Stop = "first",
) -> MixedDataset:
    """Return a dataset that draws each batch at random from one of several datasets.

    Example:
        web = FastParquetDataset("web/*.parquet", columns=["f1"], shuffle=True)
        books = FastParquetDataset("books/*.parquet", columns=["f1"], shuffle=True)
        mixed = fastload.mix({"web": web, "books": books}, weights={"web": 3, "books": 1})
        next(iter(mixed)).source  # "web" or "books"

    The mix keeps the promises of its sources: every rank has the same number of batches, known
    in advance (len); the order depends only on the seeds, the epoch, the world size and the
    number of workers; and a run resumes exactly, even on another world size. The sequence of
    sources is the same on every rank and for every number of workers.

    A batch has the columns of its source. `batch.source` is the name of the source. If the source
    has provenance=True, the batch also has `__source__`, an int32 tensor (B,) with the index of the
    source in `sources`, beside `__file__` and `__row__`.

    From now on the mix owns the datasets: the mix reads them with its own epochs and passes, a pass
    of the mix ends the passes of the datasets, and close() closes the datasets. Each dataset keeps
    its own options: limit, filters, shuffle, seed, threads. Each dataset also has its own
    memory_budget, so the mix may hold the sum of the budgets.

    Args:
        datasets: The sources, as a mapping from name to dataset, packed or not; or a list of
            them, whose names are "0", "1" and so on.
            A dataset with `weights` keeps them: from now on, `set_weights` raises. All datasets
            must have the same rank and world size. Each rank must have as many batches as the
            others, so uneven="keep" needs a world of one. With canonical_ranks or
            global_batch_size, all datasets must have the same canonical_ranks; global_batch_size
            may differ. Step t of the mix then has the same set of rows on every number of ranks
            that divides canonical_ranks, also after a resume on another number.
        weights: How often each source is drawn: positive numbers by name or in order, or None.
            Only the ratios of the weights count. None weights a source by its number of
            batches, so that all sources last about equally long.
        seed: Seed of the draws.
            The order within a source follows the source's own seed.
        stop: When an epoch ends: "first", "all" or "repeat".
            "first": when a source is drawn that has no batch left; a source that has no batch at
            all warns once, unless `weights` is None. "all": when no source has a batch left; an
            exhausted source is no longer drawn, and each batch comes once.
            "repeat": when each source was exhausted once; a source that is exhausted earlier
            starts over, in another order if the source shuffles.

    Raises:
        ValueError, TypeError: An argument is wrong, or the datasets cannot be mixed.
    """
    return MixedDataset(datasets, weights, seed, stop)


class MixedDataset(Resumable):
    """The dataset that `fastload.mix` returns, for `DataLoader(mixed, batch_size=None)`.

    Example:
        mixed = fastload.mix({"web": FastParquetDataset("web", columns=["f1"])})
        mixed.sources  # ("web",)
        mixed.schema["web"]["f1"]  # Field(dtype=torch.float32, ...)

    Args:
        datasets: The sources, as `mix` takes them.
        weights: How often each source is drawn, as `mix` takes the weights.
        seed: Seed of the draws.
        stop: When an epoch ends: "first", "all" or "repeat", as `mix` defines them.

    Raises:
        ValueError, TypeError: An argument is wrong, or the datasets cannot be mixed.
    """

    def __init__(
        self,
        datasets: Mapping[str, FastParquetDataset] | Sequence[FastParquetDataset],
        weights: Mapping[str, float] | Sequence[float] | None,
        seed: int,
        stop: Stop,
    ) -> None:
        sources = _checked_sources(datasets)
        if type(seed) is not int:
            raise TypeError(f"Expected seed as int, got {seed!r}")
        if stop not in get_args(Stop):
            known = ", ".join(repr(name) for name in get_args(Stop))
            raise ValueError(f"Expected stop to be one of {known}, got {stop!r}")
        names = [source.name for source in sources]
        units = tuple(source.units for source in sources)
        seeds = tuple(source.seed for source in sources)
        self._mixture = Mixture(
            units,
            _checked_weights(weights, names),
            stop,
            seed,
            seeds,
            canonical_ranks=_checked_slices(sources),
        )
        super().__init__(Position(seed, 0, (), seeds=seeds))
        self._of = sources
        self._warned_of_empty = False
        self._check_ranks({s.name: s.rank for s in sources if s.rank is not None})

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, in order."""
        return tuple(source.name for source in self._of)

    @property
    def schema(self) -> dict[str, Schema]:
        """The outputs of a batch by the name of its source: output name -> `Field`."""
        return {source.name: source.schema for source in self._of}

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """The files of each source, in canonical order."""
        return {source.name: source.dataset.files for source in self._of}

    def stats(self) -> dict[str, Stats]:
        """Return what each source has done in this process so far, by name.

        `consuming_s` is the same for all sources: the consumer's seconds between batches of the
        mix. For Prometheus, label each source: `stats()["web"].to_prometheus({"source": "web"})`.
        To trace a source, call `trace()` of the dataset that was passed to `mix`.
        """
        consuming_s = self._seconds_between_batches()
        return {source.name: source.stats(consuming_s) for source in self._of}

    @untraced
    def __iter__(self) -> Iterator[Batch]:
        """Begin a pass over the next epoch, and end the pass before.

        If the first batch of the pass before raised an error, begin where that pass began.

        If the iterator of an ended pass is asked for more, it raises RuntimeError. To read the
        dataset while a pass is running, iterate over a copy: `copy.copy(dataset)`.
        """
        closed = [source.name for source in self._of if source.closed]
        if closed and not self._closed:
            raise RuntimeError(
                f"Expected open datasets, got one that was closed - at source `{closed[0]}`. Close "
                "the mix instead, after its last pass; the mix closes its datasets"
            )
        with self._beginning() as (start, part):
            plan = self._plan(start, part)
            if not part.worker:  # one of several workers warns
                self._warn_of_empty_source(start)
            feeds = [
                source.begin(
                    partial(plan.shares, number),
                    start,
                    part,
                    weakly(self._prepare_next, number),
                )
                for number, source in enumerate(self._of)
            ]
            for number, source in enumerate(self._of):
                source.foresee(self._next_position, number)
            feed = MixedFeed(plan.order.tolist(), feeds, self._of)
            begun = self._pass = Pass(feed, start, part, self._epochs, of=self._digest)
        return begun

    def close(self) -> None:
        """End the pass and close the sources. Idempotent.

        Batches stay valid. If the iterator of the pass is asked for more, it raises RuntimeError.
        """
        super().close()
        for source in self._of:
            source.dataset.close()

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, _ATTRIBUTES)

    @staticmethod
    def _instead_of_setting(name: str) -> str:
        if name in ("weights", "stop"):
            return f"pass {name}= to fastload.mix, or make another mix"
        return "call mixed.set_epoch(n)" if name == "epoch" else ""

    def __repr__(self) -> str:
        sources = [indent(f"{source.name!r}: {source.dataset!r}", "  ") for source in self._of]
        head = f"MixedDataset of {len(sources)} datasets, stop={self._mixture.stop!r}"
        return "\n".join([head, *sources])

    def _resolved_rank(self) -> Rank:
        ranks = {source.name: source.resolved_rank() for source in self._of}
        self._check_ranks(ranks)
        # Prefer a rank that the user did not give: only such a rank is checked for changes.
        return min(ranks.values(), key=lambda rank: rank.given)

    def _check_ranks(self, ranks: Mapping[str, Rank]) -> None:
        for source in self._of:
            if source.name in ranks and ranks[source.name].world > 1 and source.may_be_uneven:
                raise ValueError(
                    "Expected equally many batches on each rank, got uneven='keep' and "
                    f"{ranks[source.name].world} ranks - at source `{source.name}`"
                )
        names = list(ranks)
        for name in names[1:]:
            first, other = ranks[names[0]], ranks[name]
            if (first.rank, first.world) != (other.rank, other.world):
                raise ValueError(
                    f"Expected rank {first.rank} of {first.world} as source `{names[0]}` has, got "
                    f"rank {other.rank} of {other.world} - at source `{name}`"
                )

    def _batches(self, position: Position, rank: int | None) -> int:  # noqa: ARG002 - alike on all
        world = self._resolved_rank().world
        mixture = self._mixture.at(position)
        return mix_batches(mixture, position.epoch, position.progress, world)

    def _plan(self, start: Position, part: WorkerSlot) -> MixPlan:
        return mix_plan(
            self._mixture.at(start),
            start.epoch,
            start.progress,
            part,
            skip_batches=start.taken,
        )

    def _warn_of_empty_source(self, start: Position) -> None:
        """Warn once if a source without a batch ends an epoch that begins, as soon as it is drawn.

        Args:
            start: the position where a pass begins.
        """
        mixture = self._mixture.at(start)
        # Without weights, a source is drawn as often as it has batches.
        ends = mixture.stop == "first" and mixture.weights is not None
        if not ends or start.progress or start.taken or self._warned_of_empty:
            return
        world = self._resolved_rank().world if mixture.canonical_ranks is None else 1
        for source, units, seed in zip(self._of, mixture.sources, mixture.seeds, strict=True):
            if not units.whole(seed, start.epoch, world).most:
                self._warned_of_empty = True
                warn(
                    "Expected a batch of each source, got none: with stop='first', the first draw "
                    f"of this source ends epoch {start.epoch}, after {self._length_at(start)} "
                    "batches. Leave the source out, or pass stop='all' - at source "
                    f"`{source.name}`"
                )
                return

    def _rows_of(
        self, position: Position, steps: Iterable[StepOfLeg], rank: int | None
    ) -> dict[str, NDArray[Any]]:
        mixture = self._mixture.at(position)
        shares = [
            share for step in steps for share in mix_step(mixture, position.epoch, step, rank)
        ]
        names = np.array(self.sources)[[share.source for share in shares]]
        rows, sizes = step_rows(shares, position, [source.planned for source in self._of])
        return {**rows, "source": names.repeat(sizes)}

    def _encoded(self, position: Position, worker: tuple[int, int] | None = None) -> dict[str, Any]:
        return {
            **encode_position(position, worker),
            **self._identity(),
        }

    def _identity(self) -> dict[str, Any]:
        self._resolved_rank()
        return {
            "stop": self._mixture.stop,
            "weights": self._mixture.weights and list(self._mixture.weights),
            "sources": [source.identity() for source in self._of],
        }

    def _decoded(
        self, state: Mapping[str, Any], worker: tuple[int, int] | None
    ) -> tuple[Position, bool]:
        position, own = decode_position(state, worker)
        self._check_draws(state)
        of_sources = list(zip(self._of, state["sources"], strict=True))
        windows = tuple(source.saved_window(saved) for source, saved in of_sources)
        with self._in_windows(windows):
            for source, saved in of_sources:
                source.check_identity(saved)
            if len(position.seeds) != len(self._of):
                raise no_state(state, f"{len(position.seeds)} seeds of {len(self._of)} sources")
            # These raise if this mix cannot have made the progress.
            mixture = self._mixture.at(position)
            if mixture.canonical_ranks is not None:
                check_ranks(mixture.canonical_ranks, position.progress)
            world = position.progress[-1].world if position.progress else 1
            mix_batches(mixture, position.epoch, position.progress, world)
        return replace(position, windows=windows), own

    def _use_windows(self, windows: tuple[Window | None, ...]) -> None:
        for source, window in zip(self._of, windows, strict=False):  # of no state: ()
            source.use_window(window)
        self.__dict__.pop("_digest", None)

    @contextmanager
    def _in_windows(self, windows: tuple[Window | None, ...]) -> Iterator[None]:
        with ExitStack() as stack:
            for source, window in zip(self._of, windows, strict=False):
                stack.enter_context(source.in_window(window))
            yield

    def _check_draws(self, state: Mapping[str, Any]) -> None:
        """Refuse a state whose sources, weights or stop differ."""
        try:
            stop, weights = state["stop"], state["weights"]
            names = [source["name"] for source in state["sources"]]
        except (KeyError, TypeError) as error:
            raise no_state(state, error) from error
        own = (self._mixture.weights and list(self._mixture.weights), self._mixture.stop)
        for name, saved, now in (
            ("sources", names, list(self.sources)),
            ("weights", weights, own[0]),
            ("stop", stop, own[1]),
        ):
            if saved != now:
                raise ValueError(
                    f"Expected {name}={saved!r}, as when the state was saved, got {name}={now!r}: "
                    "a state cannot continue in another order"
                )

    def _give(self, order: PassStart) -> None:
        super()._give(order)
        for source in self._of:
            source.expect(self._next_position())

    def _prepare_next(self, number: int, scan: core.Scan) -> None:
        """Let a source read the first windows of the next pass while the running pass ends."""
        running = self._pass
        if running is None:
            return
        start, part = self._next_position(), running.part
        own = next(self._plan(start, part).shares(number), None)
        if own is not None:
            self._of[number].prepare(own, start, part, scan)


def _checked_sources(
    datasets: Mapping[str, FastParquetDataset] | Sequence[FastParquetDataset],
) -> list[MixSource]:
    """Return the sources of a mix.

    Raises:
        ValueError, TypeError: the datasets cannot be mixed.
    """
    if isinstance(datasets, (list, tuple)):
        datasets = {str(number): dataset for number, dataset in enumerate(datasets)}
    if not isinstance(datasets, Mapping):
        raise TypeError(
            "Expected datasets as a list of FastParquetDataset, or a mapping from name to "
            f"FastParquetDataset, got {type(datasets).__name__}"
        )
    if not datasets:
        raise ValueError("Expected at least one dataset to mix, got none")
    sources: list[MixSource] = []
    for name, dataset in datasets.items():
        twice = [other.name for other in sources if other.dataset is dataset]
        if twice:
            raise ValueError(
                f"The dataset of source `{twice[0]}` is used twice - at source `{name}`"
            )
        sources.append(MixSource(name, dataset))
    return sources


def _checked_slices(sources: Sequence[MixSource]) -> int | None:
    """Return the number of canonical slices of each source; None = no source has slices.

    Raises:
        ValueError: the sources disagree.
    """
    first = sources[0]
    for other in sources[1:]:
        slices, others = first.canonical_ranks, other.canonical_ranks
        if slices == others:
            continue
        if slices is None or others is None:
            have, lack = (first, other) if others is None else (other, first)
            raise ValueError(
                f"Expected canonical_ranks={have.canonical_ranks} as source `{have.name}` has, got "
                f"none: write canonical_ranks={have.canonical_ranks} in each dataset, with "
                "global_batch_size instead of batch_size unless batch_size is a TokenBudget; or "
                f"write batch_size in each, and canonical_ranks in none - at source `{lack.name}`"
            )
        raise ValueError(
            f"Expected canonical_ranks={slices} as source `{first.name}` has, got "
            f"canonical_ranks={others}: write the same canonical_ranks in each dataset - at source "
            f"`{other.name}`"
        )
    return first.canonical_ranks


def _checked_weights(
    weights: Mapping[str, float] | Sequence[float] | None, names: Sequence[str]
) -> tuple[float, ...] | None:
    """Return the weight of each source that `names` names, or None if none are given.

    Raises:
        ValueError, TypeError: the weights are not positive numbers, one for each source.
    """
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        if set(weights) != set(names):
            raise ValueError(f"Expected weights of {list(names)}, got those of {list(weights)}")
        weights = [weights[name] for name in names]
    if callable(weights):
        raise TypeError(
            f"Expected weights as numbers, by name or in order, got {shortened(weights)}: call the "
            "function, and pass the numbers; a mix keeps its weights"
        )
    given: object = weights
    if isinstance(given, str) or not hasattr(given, "__len__"):
        raise TypeError(
            f"Expected weights as numbers, by name or in order, got {shortened(weights)}: write "
            f"weights={dict.fromkeys(names, 1)}"
        )
    if len(weights) != len(names):
        raise ValueError(f"Expected a weight of each of {list(names)}, got {len(weights)} weights")
    for name, weight in zip(names, weights, strict=True):
        number: object = weight
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"Expected weights as numbers, got {weight!r} - at source `{name}`")
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(
                f"Expected positive and finite weights, got {weight!r} - at source `{name}`"
            )
    return tuple(float(weight) for weight in weights)
