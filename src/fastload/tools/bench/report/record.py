"""Record of the results for programs: the JSON of --json, described by record.schema.json."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from fastload.tools.bench.machine import host, version_of

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
        "results": [_result(findings, result) for result in findings.results],
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
        "profile": findings.profile and asdict(findings.profile),
    }


def _dataset(findings: Findings) -> dict[str, Any]:
    survey, work = findings.plan.survey, findings.plan.work
    fields: dict[str, Any] = json.loads(json.dumps(asdict(survey)))
    originals = fields.pop("originals")
    return {
        **fields,
        "files": originals or fields["files"],
        "batch_size": work.batch_size,
        "threads": work.threads,
        "workers": work.workers,
    }


def _result(findings: Findings, result: Result) -> dict[str, Any]:
    survey, epoch_s = findings.plan.survey, result.epoch_s
    kept_roof_s = findings.kept_roof_s.get(result.mode) if result.kept_bytes else None
    fields = asdict(result)
    del fields["peer"], fields["epoch_s"]
    return {
        "name": result.peer.name,
        "family": result.peer.family,
        **fields,
        "rows_per_s": survey.rows / epoch_s,
        "bytes_per_s": survey.decoded_bytes / epoch_s,
        "roof_fraction": findings.roof_s and findings.roof_s / epoch_s,
        "kept_roof": kept_roof_s,
        "kept_roof_fraction": kept_roof_s and kept_roof_s / epoch_s,
    }
