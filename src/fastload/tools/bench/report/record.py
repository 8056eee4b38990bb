"""Record of the results for programs: the JSON of --json, described by record.schema.json."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from fastload.tools.bench.machine.host import host, version_of

if TYPE_CHECKING:
    from fastload.tools.bench.session import Findings, Mode, Result


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of the result of `to_json`."""
    text = resources.files("fastload.tools.bench.report").joinpath("record.schema.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def to_json(findings: Findings) -> dict[str, Any]:
    """Convert the results to the plain values that --json writes."""
    return {
        "fastload": version_of("fastload") or "not installed",
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": ["fastload-bench", *findings.command],
        "interrupted": findings.interrupted,
        "host": {**host(), "other_cores": findings.other_cores},
        "dataset": _dataset(findings),
        "roof": findings.roof_s,
        "results": _results(findings),
        "left_out": [
            {
                "name": name,
                "version": findings.versions.get(name),
                "mode": mode or None,
                "reason": reason,
                "rows_per_s": findings.cut_off.get((name, cast("Mode", mode))),
            }
            for name, mode, reason in findings.left_out
        ],
        "roofline": findings.roofline and asdict(findings.roofline),
        "profile": findings.profile and asdict(findings.profile),
    }


def _dataset(findings: Findings) -> dict[str, Any]:
    survey = findings.plan.survey
    return {
        "files": list(survey.originals or survey.files),
        "copies": survey.copies,
        "columns": list(survey.columns),
        "left_out": survey.left_out,
        "rows": survey.rows,
        "row_groups": survey.row_groups,
        "codecs": list(survey.codecs),
        "stored_bytes": survey.stored_bytes,
        "decoded_bytes": survey.decoded_bytes,
        "batch_size": findings.plan.work.batch_size,
        "threads": findings.plan.work.threads,
        "workers": findings.plan.work.workers,
    }


def _results(findings: Findings) -> list[dict[str, Any]]:
    survey = findings.plan.survey
    return [
        {
            "name": result.peer.name,
            "version": result.version,
            "mode": result.mode,
            "rows_per_s": survey.rows / result.epoch_s,
            "bytes_per_s": survey.decoded_bytes / result.epoch_s,
            "first_batch_s": result.first_batch_s,
            "peak_rss_bytes": result.peak_rss_bytes,
            "imports_rss_bytes": result.imports_rss_bytes,
            "cpu_s": result.cpu_s,
            "roof_fraction": findings.roof_s and findings.roof_s / result.epoch_s,
            "repeats": result.repeats,
            "spread": result.spread,
            "family": result.peer.family,
            "by_hand": result.peer.by_hand,
            "busy_cores": result.busy_cores,
            "bottleneck": result.bottleneck,
            **_kept(findings, result),
        }
        for result in findings.results
    ]


def _kept(findings: Findings, result: Result) -> dict[str, Any]:
    """Return the keys of a result that tell of pages kept in memory."""
    roof_s = findings.kept_roof_s.get(result.mode) if result.kept_bytes else None
    return {
        "kept_bytes": result.kept_bytes,
        "kept_roof": roof_s,
        "kept_roof_fraction": roof_s and roof_s / result.epoch_s,
    }
