import pytest

from muster.explain.words import amount_text, amounts_text, counted, duration_text, joined, nodes_text


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("nvidia.com/gpu", 8000, "8 GPUs"),
        ("nvidia.com/gpu", 1000, "1 GPU"),
        ("nvidia.com/gpu", 7750, "7.75 GPUs"),
        ("nvidia.com/gpu", 500, "500m GPU"),
        ("cpu", 2000, "2 CPUs"),
        ("cpu", 0, "0 CPUs"),
        ("memory", 64 * 2**30, "64Gi memory"),
        ("pods", 1, "1 pod"),
        ("pods", 3, "3 pods"),
        ("example.com/nic", 2000, "2 example.com/nic"),
    ],
)
def test_an_amount_reads_as_people_say_it(name: str, amount: int, text: str) -> None:
    assert amount_text(name, amount) == text


def test_devices_come_before_other_resources() -> None:
    amounts = {"cpu": 1000, "memory": 2**30, "nvidia.com/gpu": 2000}
    assert amounts_text(amounts) == "2 GPUs, 1 CPU and 1Gi memory"
    assert amounts_text({}) == "nothing"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "0.2s"), (45, "45s"), (60, "1m"), (125, "2m 5s"), (3600, "1h"), (3780, "1h 3m")],
)
def test_a_duration_is_as_exact_as_it_needs_to_be(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_reason_written_for_several_nodes_also_reads_well_for_one() -> None:
    assert nodes_text(1, "are cordoned") == "1 is cordoned"
    assert nodes_text(1, "lack free resources") == "1 lacks free resources"
    assert nodes_text(2, "lack free resources") == "2 lack free resources"
    assert nodes_text(1, "cannot reach a volume") == "1 cannot reach a volume"


def test_lists_and_counts() -> None:
    assert [joined([]), joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"], "or")] == [
        "",
        "a",
        "a and b",
        "a, b or c",
    ]
    assert [counted(1, "node"), counted(0, "node")] == ["1 node", "0 nodes"]
