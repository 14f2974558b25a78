import io

from rich.console import Console

from muster.api import load_text
from muster.cli.screen import FREE, Picture, cluster_picture, draw
from muster.simulate import simulate


def _node(name: str, amounts: str, spec: str = "", cpu: int = 64) -> str:
    return (
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        f'status: {{allocatable: {{cpu: "{cpu}", memory: 64Gi, pods: "99"{amounts}}}}}\n'
    )


def _pod(name: str, node: str, request: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a}}\n"
        f"spec: {{nodeName: {node}, containers: [{{name: m, resources: {{requests: {{{request}}}}}}}]}}\n"
        "status: {phase: Running}\n"
    )


def _picture(*documents: str, max_nodes: int = 40) -> Picture:
    session = simulate(load_text("---\n".join(documents)), cycles=1).last_session
    assert session is not None
    return cluster_picture(session.snapshot, max_nodes)


def _drawn(picture: Picture, *, colours: bool, width: int = 100) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colours,
        color_system="standard" if colours else None,
        no_color=not colours,
    )
    console.print(draw(picture, width))
    return file.getvalue()


def test_each_device_is_a_cell_of_its_job() -> None:
    gpu = ', nvidia.com/gpu: "4"'
    picture = _picture(
        _node("n1", gpu),
        _node("n2", gpu),
        _pod("x", "n1", 'nvidia.com/gpu: "3"'),
        _pod("y", "n2", 'nvidia.com/gpu: "1"'),
    )
    assert picture.resource == "nvidia.com/gpu"
    assert [row.cells for row in picture.rows] == [
        ("a/pod/x", "a/pod/x", "a/pod/x", FREE),
        ("a/pod/y", FREE, FREE, FREE),
    ]
    assert picture.letters == {"a/pod/x": "A", "a/pod/y": "B"}


def test_half_a_cpu_is_drawn_and_a_hundredth_is_not() -> None:
    half = _picture(_node("n1", "", cpu=2), _pod("x", "n1", "cpu: 500m"))
    tiny = _picture(_node("n1", "", cpu=2), _pod("x", "n1", "cpu: 10m"))
    assert half.rows[0].cells == ("a/pod/x", FREE)
    assert tiny.rows[0].cells == (FREE, FREE)


def test_without_devices_cpus_are_drawn_in_larger_cells() -> None:
    picture = _picture(_node("n1", ""), _pod("x", "n1", 'cpu: "32"'))
    assert (picture.resource, picture.per_cell) == ("cpu", 2000)
    assert picture.rows[0].cells.count("a/pod/x") == 16
    assert "one cell: 2 CPUs" in _drawn(picture, colours=False)


def test_nodes_come_in_the_order_of_their_numbers_and_the_rest_is_counted() -> None:
    gpu = ', nvidia.com/gpu: "1"'
    used = _pod("x", "n0", 'nvidia.com/gpu: "1"')
    picture = _picture(*(_node(f"n{i}", gpu) for i in range(12)), _node("plain", ""), used, max_nodes=11)
    assert [row.name for row in picture.rows] == [f"n{i}" for i in range(11)]
    assert (picture.n_hidden, picture.without) == (1, ("plain",))
    shown = _drawn(picture, colours=False)
    assert "and 1 more node with GPUs" in shown
    assert "without GPUs: plain" in shown


def test_a_cordoned_node_is_marked() -> None:
    shown = _drawn(_picture(_node("n1", "", "unschedulable: true")), colours=False)
    assert "n1" in shown
    assert "cordoned" in shown


def test_plain_text_tells_jobs_apart_by_letters_alone() -> None:
    picture = _picture(_node("n1", ', nvidia.com/gpu: "2"'), _pod("x", "n1", 'nvidia.com/gpu: "1"'))
    plain = _drawn(picture, colours=False)
    assert "\x1b" not in plain
    assert [line.split() for line in plain.splitlines()][:2] == [
        ["n1", "A", "·", "1/2"],
        ["A", "a/pod/x", "·", "free"],
    ]
    assert "\x1b[" in _drawn(picture, colours=True)


def test_the_legend_keeps_to_the_width() -> None:
    pods = [_pod(f"a-long-name-{i:02}", "n1", 'nvidia.com/gpu: "1"') for i in range(12)]
    drawn = _drawn(_picture(_node("n1", ', nvidia.com/gpu: "12"'), *pods), colours=False, width=60)
    assert max(len(line.rstrip()) for line in drawn.splitlines()) <= 60
    assert drawn.count("a/pod/a-long-name-") == 12
