"""Who does the runs: processes of this machine, one for each core, or a Dask cluster.

Both are told the inputs once and then run by run, and hand back figures as they come. Workers of a Dask cluster need
Muster of this version and nothing else: what is read here is sent to them.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from muster import __version__
from muster.api import BackendError, UserError
from muster.lab.compare.runs import Inputs, Run, do

#: By number of the run, its figures.
Done = tuple[int, dict[str, Any]]  # Any: JSON
#: The inputs of this process, where it is a worker.
_INPUTS: Final[list[Inputs]] = []


def done_here(runs: Sequence[tuple[int, Run]], inputs: Sequence[Inputs], n_workers: int) -> Iterator[Done]:
    """Do runs in processes of this machine; what is left when nobody asks for more is given up."""
    if n_workers == 1 or len(runs) == 1:
        yield from ((number, do(run, inputs[run.place])) for number, run in runs)
        return
    context = multiprocessing.get_context("spawn")  # a fork would take threads and locks of this process along
    pool = ProcessPoolExecutor(min(n_workers, len(runs)), context, _begin, (list(inputs),))
    try:
        asked = {pool.submit(_do, run): number for number, run in runs}
        for future in as_completed(asked):
            yield asked[future], future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(inputs: list[Inputs]) -> None:
    _INPUTS[:] = inputs


def _do(run: Run) -> dict[str, Any]:
    return do(run, _INPUTS[run.place])


def done_by_dask(runs: Sequence[tuple[int, Run]], inputs: Sequence[Inputs], address: str) -> Iterator[Done]:
    """Do runs on the cluster whose scheduler has this address. Raises UserError, BackendError."""
    if find_spec("distributed") is None:
        raise UserError("--dask needs the package distributed: pip install 'muster[dask]'")
    dask: Any = import_module("distributed")  # Any: it has no types
    try:
        client = dask.Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise BackendError(f"--dask: no scheduler answers at {address}: {error}", retryable=True) from None
    with client:
        _check_versions(client.run(_version), address)
        sent = [client.scatter(known, broadcast=True) for known in inputs]
        asked = {client.submit(do, run, sent[run.place], pure=False): number for number, run in runs}
        try:
            for future in dask.as_completed(list(asked)):
                yield asked[future], future.result()
        finally:
            client.cancel(list(asked))


def _check_versions(found: Mapping[str, str], address: str) -> None:
    if not found:
        raise BackendError(f"--dask: the cluster at {address} has no workers", retryable=True)
    other = next(((worker, version) for worker, version in sorted(found.items()) if version != __version__), None)
    if other is not None:
        raise UserError(f"--dask: expected Muster {__version__} on all workers, got {other[1]} on {other[0]}")


def _version() -> str:
    return __version__
