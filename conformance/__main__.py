"""`python -m conformance DIR`: run recorded cases and say where Muster disagrees.

Exit codes: 0 all agree (or are skipped), 1 some case failed or the list of disagreements is not honest,
2 the cases cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.cases import KAI, read_cases
from conformance.disagreements import Disagreements
from conformance.kai_picture import picture
from conformance.results import (
    FAILED,
    SKIPPED,
    agreement_lines,
    closing_line,
    failure_line,
    skipped_lines,
    table,
    write_json,
)
from conformance.runner import Runner
from muster.api import UserError
from muster.scheduler import builtin_registry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except UserError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="Run recorded cases of other schedulers through Muster."
    )
    parser.add_argument("cases", type=Path, metavar="DIR", help="folder (or file) with *.json and *.json.gz cases")
    parser.add_argument("--only", default="", metavar="TEXT", help="run only cases whose id contains TEXT")
    parser.add_argument("--strict", action="store_true", help="random cases: compare pods and nodes, not only counts")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all results to FILE as JSON")
    parser.add_argument(
        "--show", action="store_true", help="print KAI's cluster cases that fail in full, with their run"
    )
    parser.add_argument("--verbose", action="store_true", help="print a line for every case")
    return parser


def _run(options: argparse.Namespace) -> int:
    disagreements = Disagreements.load()
    registry = builtin_registry(third_party=False)
    runner = Runner(registry, disagreements, strict=options.strict)
    results = runner.run_all(read_cases(options.cases, options.only))
    if not results:
        wanted = f" whose id contains {options.only!r}" if options.only else ""
        raise UserError(f"{options.cases}: no case{wanted} in *.json or *.json.gz")
    for result in results:
        if result.outcome == FAILED:
            print(failure_line(result))
            if options.show and result.case.system == KAI and not result.case.is_function:
                print(*picture(result.case, registry), sep="\n")
        elif options.verbose:
            note = f" ({result.feature or 'decided'})" if result.outcome == SKIPPED else ""
            print(f"{result.outcome} {result.case.file} {result.case.id}{note}")
    # With a part of the cases, an entry that nothing matches proves nothing.
    problems = disagreements.problems(complete=not options.only)
    for line in (*table(results), "", *skipped_lines(results), *agreement_lines(results), *runner.no_worse.lines()):
        print(line)
    for problem in problems:
        print(f"error: disagreements.yaml: {problem}")
    if options.out:
        write_json(results, options.out)
    print(closing_line(results))
    return 1 if problems or any(result.outcome == FAILED for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
