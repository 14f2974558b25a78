"""HyperNodes that follow the network, on a real API server and with the rights that the chart gives for that."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import yaml

from muster.testing.control_plane import ControlPlane
from tests.deploy.manifests import CHART
from tests.deploy.rendering import Chart
from tests.kubernetes.accounts import account
from tests.kubernetes.kubectl import Json, Kubectl, node
from tests.kubernetes.replicas import Process

NAMESPACE = "default"
WORD = "Basic " + base64.b64encode(b"reader:s3cret").decode()
PORTS = [
    {"description": "Computer IB Port", "system_name": name, "peer_node_name": leaf}
    for name, leaf in (("n1", "leaf-a"), ("n2", "leaf-a"), ("n3", "leaf-b"))
]


class Manager(BaseHTTPRequestHandler):
    """Answers as UFM does."""

    def do_GET(self) -> None:
        is_known = self.headers.get("Authorization") == WORD and self.path == "/ufmRest/resources/ports"
        body = json.dumps(PORTS).encode() if is_known else b""
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


@contextmanager
def manager(certificates: Path) -> Iterator[str]:
    """A manager of switches; it shows the API server's certificate, which is for the same address."""
    server = HTTPServer(("127.0.0.1", 0), Manager)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def description(endpoint: str) -> str:
    labels = [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    sources = [
        {"source": "label", "enabled": True, "config": {"networkTopologyTypes": {"racks": labels}}},
        {
            "source": "ufm",
            "enabled": True,
            "interval": "1s",
            "credentials": {"secretRef": {"name": "ufm", "namespace": NAMESPACE}},
            "config": {"endpoint": endpoint},
        },
    ]
    return yaml.safe_dump({"networkTopologyDiscovery": sources})


def tree(kubectl: Kubectl, source: str) -> list[list[str]]:
    """Members of the HyperNodes of a source, by tier."""
    found = [
        each
        for each in kubectl.list("HyperNode")
        if each["metadata"]["labels"]["volcano.sh/network-topology-source"] == source
    ]
    found.sort(key=lambda each: (each["spec"]["tier"], each["metadata"]["name"]))
    return [[member["selector"]["exactMatch"]["name"] for member in each["spec"]["members"]] for each in found]


def test_hypernodes_follow_labels_and_a_manager_of_switches(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    certificates = control_plane.work / "certificates"
    kubectl.create_all(node(f"n{k}", labels={"example.com/rack": "r1"}) for k in (1, 2, 3))
    words = {"username": "reader", "password": "s3cret", "ca.crt": (certificates / "apiserver.crt").read_text()}
    head = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ufm"}}
    with manager(certificates) as endpoint:
        values = {"controllers": {"discovery": {"config": description(endpoint), "secretNames": ["ufm"]}}}
        made = [each for each in yaml.safe_load_all(Chart(CHART).render(values, namespace=NAMESPACE)) if each]
        config = next(each for each in made if each["metadata"]["name"] == "muster-discovery")
        rules = rights(made)
        kubectl.create({**head, "stringData": words})
        kubectl.create(config)
        with account(control_plane, kubectl, tmp_path, rules) as limited:
            options = (
                "--components",
                "controllers",
                "--no-leader-elect",
                "--discovery",
                f"{NAMESPACE}/muster-discovery",
            )
            process = Process(limited.kubeconfig, tmp_path / "log", *options)
            try:
                kubectl.wait(lambda: tree(kubectl, "label") == [["n1", "n2", "n3"]], seconds=60)
                leaves = [["n1", "n2"], ["n3"]]
                kubectl.wait(lambda: tree(kubectl, "ufm") == [*leaves, ["leaf-hn-0", "leaf-hn-1"]])
                kubectl.patch("Node", "n3", {"metadata": {"labels": {"example.com/rack": "r2"}}})
                kubectl.wait(lambda: sorted(tree(kubectl, "label")) == [["n1", "n2"], ["n3"]])
                PORTS[2]["peer_node_name"] = "leaf-a"
                kubectl.wait(lambda: tree(kubectl, "ufm") == [["n1", "n2", "n3"], ["leaf-hn-0"]])
                assert "forbidden" not in process.log.read_text()
            finally:
                PORTS[2]["peer_node_name"] = "leaf-b"
                process.end()
                for kind, name in (("Secret", "ufm"), ("ConfigMap", "muster-discovery")):
                    kubectl.delete(kind, name)


def rights(made: list[Json]) -> list[Json]:
    """What controllers may do, in the cluster and in their namespace."""
    roles = [each for each in made if each["kind"] in ("ClusterRole", "Role")]
    return [rule for each in roles if each["metadata"]["name"].endswith("-controllers") for rule in each["rules"]]
