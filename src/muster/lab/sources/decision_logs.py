"""Jobs from what a running scheduler logged: the lines `job-start` and `job-end` of `muster.scheduler.job_log`.

Jobs that had not ended when the log did are left out, and counted, and so are those whose beginning is not in it. What
else a log holds is passed over. Pods of a job share equally what it asked for.
"""

from __future__ import annotations

import gzip
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from muster.api import Quantity, UserError
from muster.lab.sources.tables import object_name
from muster.lab.trace import Trace, TraceJob

_PAIR: Final = re.compile(r"(\w+)=(\S*)")
_NEEDED: Final = {"job-start": ("job", "created", "pods", "asks"), "job-end": ("job", "seconds")}


def read_log(path: Path) -> Trace:
    """Read the jobs of a log. Raises UserError."""
    running: dict[str, TraceJob] = {}
    ended: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    for place, event, words in _events(path):
        if event == "job-start":
            running[words["job"]] = _job(words, place)
        elif (job := running.pop(words["job"], None)) is not None:
            ended.append(replace(job, run_s=_number(words, "seconds", place)))
        else:
            left_out["began before the log did"] += 1
    left_out.update({"had not ended when the log did": len(running)})
    if not ended:
        raise UserError("expected lines with event=job-start and event=job-end, as `muster run` logs", place=str(path))
    first = min(job.submit_s for job in ended)
    moved = sorted(
        (replace(job, submit_s=job.submit_s - first) for job in ended), key=lambda job: (job.submit_s, job.name)
    )
    return Trace(list(_with_names_of_their_own(moved)), str(path), +left_out)


def _events(path: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    except (OSError, EOFError) as error:
        raise UserError(f"cannot read the log: {error}", place=str(path)) from None
    for number, line in enumerate(text.splitlines(), start=1):
        if "event=job-" in line:
            words = dict(_PAIR.findall(line.partition("event=")[2]))
            event, place = line.partition("event=")[2].split()[0], f"{path}:{number}"
            missing = [name for name in _NEEDED.get(event, ()) if name not in words]
            if missing:
                raise UserError(f"{event} does not say {missing[0]}=", place=place)
            if event in _NEEDED:
                yield place, event, words


def _job(words: Mapping[str, str], place: str) -> TraceJob:
    pods = max(1, int(_number(words, "pods", place)))
    asked = (part.partition("=")[::2] for part in words["asks"].split(",") if part)
    return TraceJob(
        name=object_name(words["job"].replace("/", "-")),
        submit_s=_number(words, "created", place),
        run_s=None,
        n_tasks=pods,
        requests=tuple((name, _share(amount, pods, place)) for name, amount in asked),
        queue=object_name(words.get("queue", "")) or "default",
        user=words.get("owner", ""),
    )


def _share(amount: str, pods: int, place: str) -> str:
    """What one pod asked for, in thousandths where it is no whole number."""
    try:
        each = Quantity(amount).value / pods
    except ValueError:
        raise UserError(f'asks: expected amounts such as nvidia.com/gpu=8, got "{amount}"', place=place) from None
    return str(int(each)) if each == int(each) else f"{math.ceil(each * 1000)}m"


def _number(words: Mapping[str, str], name: str, place: str) -> float:
    try:
        number = float(words[name])
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UserError(f'{name}: expected a number from 0 on, got "{words[name]}"', place=place)
    return number


def _with_names_of_their_own(jobs: list[TraceJob]) -> Iterator[TraceJob]:
    """A job that is made again under its name is another one."""
    seen: Counter[str] = Counter()
    for job in jobs:
        seen[job.name] += 1
        yield job if seen[job.name] == 1 else replace(job, name=f"{job.name}-run-{seen[job.name]}")
