"""The objects of the recorded Volcano cases decode, validate and survive encoding."""

import json
from pathlib import Path

import pytest

from muster.api import check, decode, encode

CASES = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "volcano"
FILES = sorted(CASES.glob("*.json"))


@pytest.mark.skipif(not FILES, reason="recorded cases are not beside the repository (../shared/conformance)")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_objects_decode(file: Path) -> None:
    for case in json.loads(file.read_bytes()):
        # Some entries are maps that describe the run (tiers of HyperNodes), not objects.
        groups = [group for group in case.get("objects", {}).values() if isinstance(group, list)]
        for document in (document for group in groups for document in group):
            decoded = decode(document)
            check(decoded)
            assert decoded.kind == document["kind"], case["id"]
            assert decode(encode(decoded)) == decoded, case["id"]
