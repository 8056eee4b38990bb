"""Meaning of a record: which contender is the fastest, by how much, and what limits fastload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fastload.runtime.units import counted, duration_of, million

if TYPE_CHECKING:
    from collections.abc import Sequence

Record: TypeAlias = dict[str, Any]
Entry: TypeAlias = dict[str, Any]

# Training shuffles, so these results come first.
MODES = {"shuffled": "shuffled", "in_order": "in order"}
# Shorter epochs measure how fast an epoch starts.
_SHORT_S = 0.02
# Medians that differ by less are the same, however calm the epochs are.
_NOISE = 0.02
# Above this share of the cores, less waiting would gain little.
_BUSY = 0.85
# A larger share of the cores in the hands of others makes the figures doubtful.
_OTHERS = 0.15


@dataclass(frozen=True, slots=True)
class Comparison:
    """fastload beside the best other contender of a mode.

    Attributes:
        mode: "shuffled" or "in_order".
        mine: the entry of fastload.
        best: the entry of the fastest contender that reads the files in each epoch; None if
            there is no such contender.
        short_s: seconds of an epoch of fastload that is too short to be compared; 0 = it is not.
    """

    mode: str
    mine: Entry
    best: Entry | None
    short_s: float

    @property
    def times(self) -> float:
        """How many times as fast as the best other contender fastload is; 1 without another."""
        return self.mine["rows_per_s"] / self.best["rows_per_s"] if self.best else 1.0

    @property
    def is_tie(self) -> bool:
        """True if the difference is within the noise of both."""
        if self.best is None:
            return False
        noise: float = max(_NOISE, self.mine["spread"] + self.best["spread"])
        return 1 / (1 + noise) < self.times < 1 + noise


def ranked(record: Record, mode: str) -> list[Entry]:
    """Return the results of a mode, the fastest first."""
    results = [entry for entry in record["results"] if entry["mode"] == mode]
    return sorted(results, key=lambda entry: -entry["rows_per_s"])


def compared(record: Record, mode: str) -> Comparison | None:
    """Compare fastload with the best other contender of a mode; None if fastload has no result."""
    results = ranked(record, mode)
    mine = next((entry for entry in results if entry["family"] == "fastload"), None)
    if mine is None:
        return None
    reading = (e for e in results if e["family"] not in ("fastload", "memory"))
    epoch_s = record["dataset"]["rows"] / mine["rows_per_s"]
    return Comparison(mode, mine, next(reading, None), epoch_s if epoch_s < _SHORT_S else 0.0)


def verdict(record: Record) -> str:
    """Return the verdict in one or two sentences."""
    found = [one for mode in MODES if (one := compared(record, mode)) is not None]
    if not found:
        return "fastload has no result."
    if any(one.short_s for one in found):
        short = duration_of(min(one.short_s for one in found if one.short_s))
        advice = "" if _remote(record) else ", or more copies of these (--copies)"
        return f"Too short to compare: an epoch takes {short}. Measure larger files{advice}."
    sentences = [_sentence(one) for one in found]
    if len(found) > 1 and all(one.best and one.times > 1 and not one.is_tie for one in found):
        second = found[1]
        name = second.best and second.best["name"]
        sentences[1] = f"{MODES[second.mode]}, {second.times:.1f}x ({name})"
    return f"{'; '.join((sentences[0], *map(_lower, sentences[1:])))}.{_of_first_epochs(found)}"


def _of_first_epochs(found: Sequence[Comparison]) -> str:
    """Say in a sentence that kept pages were compared with others that decompress; "" if not."""
    kept = [one for one in found if one.best and is_kept(one.mine)]
    if not kept:
        return ""
    firsts = ", ".join(
        f"{MODES[one.mode]} {one.best['first_epoch_s'] / one.mine['first_epoch_s']:.1f}x"
        for one in kept
        if one.best and one.mine.get("first_epoch_s")
    )
    text = " fastload keeps pages decompressed in memory, and the others decompress in each epoch"
    return f"{text}; in the first epoch, start included: {firsts}." if firsts else f"{text}."


def roof_share(entry: Entry) -> float | None:
    """Return the share of the roof that a contender reached; None if it is unknown.

    The share of a contender that keeps decompressed pages in memory is of a roof over such pages.
    A roof that is slower than a contender was disturbed while it was measured.
    """
    name = "kept_roof_fraction" if is_kept(entry) else "roof_fraction"
    share: float | None = entry[name]
    return None if share is None or share > 1 else share


def is_kept(entry: Entry) -> bool:
    """Return True if a contender was measured with pages that it keeps decompressed in memory."""
    return bool(entry.get("kept_bytes"))


def is_absent(left_out: Entry) -> bool:
    """Return True if a contender was left out because it is not installed."""
    return left_out["version"] is None and "is not installed" in left_out["reason"]


def warnings(record: Record) -> list[str]:
    """Return what makes the figures doubtful."""
    lines = []
    others, cores = record["host"]["other_cores"], record["host"]["cores"]
    if _is_disturbed(record):
        lines.append(
            f"other processes used {min(others, cores):.1f} of {cores} cores; the figures are low"
        )
    if record["interrupted"]:
        lines.append("interrupted: results of fewer repeats than planned, or of fewer contenders")
    return lines


def hints(record: Record) -> list[str]:
    """Return what limits fastload, and what else could be measured."""
    lines = [*_limit(record)]
    absent = [one["name"] for one in record["left_out"] if is_absent(one)]
    if absent:
        lines.append(f"not installed: {', '.join(absent)} (`make peers` in a checkout)")
    if not any(word.startswith("--peers") for word in record["command"]):
        lines.append("--peers all adds every loader that is installed")
    return lines


def _limit(record: Record) -> list[str]:
    one = next((one for mode in MODES if (one := compared(record, mode)) is not None), None)
    if one is None or one.short_s or _is_disturbed(record):
        return []
    cores = record["host"]["cores"]
    threads = min(record["dataset"]["threads"] or cores, cores)
    busy, stage = min(one.mine["busy_cores"], threads), one.mine["bottleneck"]
    at_work = f"{busy:.1f} of {counted(threads, 'core')} at work"
    if busy >= _BUSY * threads:
        text = f"{MODES[one.mode]}, the processor is the limit ({at_work})"
        text += f", most of all in {stage}" if stage in ("decode", "kernels", "steps") else ""
    elif stage == "read":
        text = f"{MODES[one.mode]}, reads are the limit ({at_work})"
    else:
        text = f"{MODES[one.mode]}, {at_work}"
    share = roof_share(one.mine)
    return [text + (f"; {100 * share:.0f} % of the hardware's limit" if share else "")]


def _sentence(one: Comparison) -> str:
    mode = MODES[one.mode].capitalize()
    if one.best is None:
        return f"{mode}, fastload reads {million(one.mine['rows_per_s'])} rows/s"
    name = one.best["name"]
    if one.is_tie:
        return f"{mode}, fastload and {name} are as fast as each other, within the noise"
    if one.times < 1:
        return f"{mode}, {name} is {1 / one.times:.1f}x as fast as fastload"
    return f"{mode}, fastload is {one.times:.1f}x as fast as the best other ({name})"


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _is_disturbed(record: Record) -> bool:
    others, cores = record["host"]["other_cores"], record["host"]["cores"]
    return others is not None and others > _OTHERS * cores


def _remote(record: Record) -> bool:
    return "://" in record["dataset"]["files"][0]
