"""A stand-in for a Kubernetes cluster: what it is asked to run is recorded, and run on this machine.

It knows the few requests that Snakemake's executor makes, and refuses what a real one would refuse of them: a GPU
without a limit, and a job without an image. A pod is a process in an empty folder that sees this machine's files under
the paths that they have here, as one that mounts the volume with the clone would.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

JOBS = "/apis/batch/v1/namespaces/default/jobs"
INSTALL = re.compile(r"pip install --target \S+ \S+ &&")


class Cluster:
    """What was asked for, in order, and the pods by the names of their jobs."""

    def __init__(self, folder: Path, refuse: str = "") -> None:
        self.folder = folder
        self.jobs: list[dict[str, Any]] = []
        self.pods: dict[str, subprocess.Popen] = {}
        self.deleted: list[str] = []

    def submit(self, body: dict[str, Any]) -> str | None:
        """Start a job's pod; return why it is refused, if it is."""
        pod = body["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        asked, limits = (container["resources"].get(kind) or {} for kind in ("requests", "limits"))
        for name, count in asked.items():
            if name.endswith("/gpu") and limits.get(name) != count:
                return f"{name}: Limit must be set for non overcommitable resources"
        if not container.get("image"):
            return "spec.template.spec.containers[0].image: Required value"
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        if mounted != {volume["name"] for volume in pod["volumes"]}:
            return "spec.template.spec.containers[0].volumeMounts: not found"
        name = body["metadata"]["name"]
        self.jobs.append(body)
        place = self.folder / name
        place.mkdir()
        words = [*container["command"], *(INSTALL.sub("", word) for word in container["args"])]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(place)}
        with (self.folder / f"{name}.log").open("w") as log:
            self.pods[name] = subprocess.Popen(
                words, cwd=place, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        return None

    def status(self, name: str) -> dict[str, int]:
        code = self.pods[name].poll()
        return {"active": 1} if code is None else {"succeeded": 1} if code == 0 else {"failed": 1}

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        path, _, query = path.partition("?")
        if method == "POST" and path == JOBS:
            refused = self.submit(body)
            return (
                (422, {"kind": "Status", "reason": "Invalid", "message": refused}) if refused else (201, body)
            )
        if method == "GET" and path.startswith(f"{JOBS}/"):
            name = path.removeprefix(f"{JOBS}/").removesuffix("/status")
            return 200, {"kind": "Job", "metadata": {"name": name}, "status": self.status(name)}
        if method == "DELETE" and path.startswith(f"{JOBS}/"):
            name = path.rpartition("/")[2]
            self.deleted.append(name)
            if self.pods[name].poll() is None:
                self.pods[name].kill()
        if method == "GET" and path.endswith("/pods"):
            return 200, {"kind": "PodList", "items": []}
        return 200, body if method == "POST" else {"kind": "Status", "status": "Success"}


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Cluster, dict[str, str]]]:
    """Yield a stand-in, and the environment in which kubectl and Snakemake find it."""
    here = Cluster(folder)

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            status, answer = here.answer(self.command, self.path, body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = do  # noqa: N815

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
                ],
                "users": [{"name": "me", "user": {}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                "current-context": "here",
            }
        )
    )
    try:
        yield here, dict(os.environ) | {"KUBECONFIG": str(config)}
    finally:
        server.shutdown()
        server.server_close()
        for pod in here.pods.values():
            if pod.poll() is None:
                pod.kill()
                pod.wait()
