"""The API process on a real socket, with a data directory of its own and no other part of the service."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tidegate import metrics
from tidegate.assembly import open_topics
from tidegate.datadir import DataDirectory
from tidegate.settings import Settings, load


@dataclass
class Api:
    directory: DataDirectory
    settings: Settings
    url: str
    token: str

    def client(self, token: str | None = None) -> httpx.Client:
        chosen = self.token if token is None else token
        headers = {"Authorization": f"Bearer {chosen}"} if chosen else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)


def serving(path: Path, *overrides: str) -> Iterator[Api]:
    directory = DataDirectory(path)
    directory.prepare()
    settings = load(directory.path, overrides=overrides)
    directory.write_settings(settings)
    topics = open_topics(settings, directory.path)
    topics.create(settings.metalog.topic, settings.metalog.partitions)
    topics.close()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        command = [sys.executable, "-m", "tidegate.web.serve", "--data", str(directory.path), "--fd", str(fd)]
        environment = os.environ | {metrics.MULTIPROCESS_VARIABLE: str(directory.metrics)}
        process = subprocess.Popen(command, pass_fds=[fd], env=environment)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        wait_until_it_answers(process, url)
        yield Api(directory, settings, url, directory.admin_token(settings))
    finally:
        process.terminate()
        process.wait(20)


def wait_until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx.get(f"{url}/healthz", timeout=5)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the API does not answer")
