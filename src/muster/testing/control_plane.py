"""A control plane of real parts on loopback: etcd, kube-apiserver and, where asked for, KWOK's nodes and controllers.

Tests and benchmarks use it as a context manager. Every program runs in its own process group, writes its log into the
work directory, and is ended when the block is left, in the reverse order of starting. Parts can be killed and started
again on the same ports and the same data, as faults do. Nothing here knows Muster's backend.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import yaml

from muster.testing.real_parts import find

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
#: How many pods KWOK starts at once: it stands for the kubelets of many nodes, which do not wait for each other.
_KUBELETS = 16
#: Order of the group of NIST P-256: private keys lie below it.
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class Part:
    """One program of the control plane."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  # the parts, with arguments of our own
                self._command,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def check(self) -> None:
        """Raise when the program has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} ended with {self._process.returncode}:\n{tail}")

    def kill(self) -> None:
        """End the program without a chance to clean up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ControlPlane:
    """etcd and kube-apiserver, and KWOK on demand; `kubeconfig` is the administrator's."""

    def __init__(
        self,
        work: Path,
        *,
        kwok: bool = True,
        api_server: Path | None = None,
        api_server_flags: Mapping[str, object] | None = None,
        kwok_stages: str = "",
    ) -> None:
        """`api_server`: another program in the place of the one beside the others; with more flags.

        `kwok_stages`: what KWOK does, as YAML, in the place of what it does by itself.
        """
        self._assets = find(("kube-apiserver", "etcd", "kwok") if kwok else ("kube-apiserver", "etcd"))
        self.work = work
        self._kwok_stages = kwok_stages
        self.token = secrets.token_hex(16)
        self.port, self._etcd_port, self._peer_port, self._kwok_port = free_ports(4)
        self.server = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = work / "kubeconfig"
        self.etcd = self._part("etcd", self._etcd_flags())
        flags = {**self._api_server_flags(), **(api_server_flags or {})}
        self.api_server = self._part("kube-apiserver", flags, api_server)
        self.kwok = self._part("kwok", self._kwok_flags()) if kwok else None

    def __enter__(self) -> ControlPlane:
        self.work.mkdir(parents=True, exist_ok=True)
        _write_key(self.work / "service-account.key")
        (self.work / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        try:
            self.etcd.start()
            self.start_api_server()
            self._write_kubeconfig()
            self._write_kwok_config()
            if self.kwok is not None:
                self.kwok.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for part in (self.kwok, self.api_server, self.etcd):
            if part is not None:
                part.stop()

    @contextlib.contextmanager
    def without_kubelets(self) -> Iterator[None]:
        """Nobody starts or removes pods for a while."""
        assert self.kwok is not None
        self.kwok.stop()
        try:
            yield
        finally:
            self.kwok.start()

    @contextlib.contextmanager
    def controllers(self) -> Iterator[Part]:
        """Deployments, Jobs and owners behave as on a cluster for a while. Raises MissingPartsError."""
        find(("kube-controller-manager",))
        manager = self._part("kube-controller-manager", self._manager_flags())
        manager.start()
        try:
            yield manager
        finally:
            manager.stop()

    def start_api_server(self) -> None:
        """Start the API server, the first time or again, and wait until it is ready."""
        self.api_server.start()
        until = time.monotonic() + _START_SECONDS
        while not is_ready(self.server, self.token):
            self.etcd.check()
            self.api_server.check()
            if time.monotonic() > until:
                raise RuntimeError(f"kube-apiserver was not ready in {_START_SECONDS:.0f} s; see {self.api_server.log}")
            time.sleep(0.05)

    def _part(self, name: str, flags: Mapping[str, object], program: Path | None = None) -> Part:
        command = [str(program or self._assets / name), *(f"--{flag}={value}" for flag, value in flags.items())]
        return Part(name, command, self.work / f"{name}.log")

    def _etcd_flags(self) -> dict[str, object]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return {
            "data-dir": self.work / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
            "log-level": "error",
        }

    def _api_server_flags(self) -> dict[str, object]:
        key = self.work / "service-account.key"
        return {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self.port,
            "cert-dir": self.work / "certificates",
            "token-auth-file": self.work / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.0.0.0/24",
            # No controller manager runs here: no service accounts, and nobody would take the taints away again.
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "endpoint-reconciler-type": "none",
            "enable-priority-and-fairness": "false",
            "max-requests-inflight": 2000,
            "max-mutating-requests-inflight": 1000,
        }

    def _manager_flags(self) -> dict[str, object]:
        names = ("deployment", "replicaset", "statefulset", "job", "disruption", "namespace", "garbage-collector")
        return {
            "kubeconfig": self.kubeconfig,
            "controllers": ",".join(f"{name}-controller" for name in names),
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": free_ports(1)[0],
            "cert-dir": self.work / "manager-certificates",
            "kube-api-qps": 200,
            "kube-api-burst": 400,
        }

    def _kwok_flags(self) -> dict[str, object]:
        return {
            "config": self.work / "kwok.yaml",
            "kubeconfig": self.kubeconfig,
            "manage-all-nodes": "true",
            "server-address": f"127.0.0.1:{self._kwok_port}",
        }

    def _write_kwok_config(self) -> None:
        document = {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            "options": {"podPlayStageParallelism": _KUBELETS},
        }
        (self.work / "kwok.yaml").write_text(f"{yaml.safe_dump(document)}---\n{self._kwok_stages}")

    def _write_kubeconfig(self) -> None:
        authority = (self.work / "certificates" / "apiserver.crt").read_bytes()
        cluster = {"server": self.server, "certificate-authority-data": b64encode(authority).decode()}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))


def is_ready(server: str, token: str = "") -> bool:
    """Whether a part on loopback says that it is ready; its certificate is not checked."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    try:
        request = urllib.request.Request(f"{server}/readyz", headers=headers)  # noqa: S310  # always https
        with urllib.request.urlopen(request, timeout=2, context=unchecked) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except urllib.error.HTTPError as answer:
        answer.close()
    except OSError:  # nobody listens yet
        pass
    return False


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened on a moment ago."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _write_key(path: Path) -> None:
    """Write a new private key (SEC 1, P-256) with which the API server signs service accounts' tokens."""
    scalar = secrets.randbelow(_P256_ORDER - 1) + 1
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    body = b"\x02\x01\x01\x04\x20" + scalar.to_bytes(32, "big") + curve
    encoded = b64encode(b"\x30" + bytes([len(body)]) + body).decode()
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{encoded}\n-----END EC PRIVATE KEY-----\n")
