"""`tidegate up` as a whole: what it starts, keeps running, and ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import ssl
import stat
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from running_service import TIDEGATE, RunningService

MakeService = Callable[..., RunningService]


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.1)


def test_endpoints_name_addresses_token_and_process(service: RunningService) -> None:
    file = service.data / "run" / "endpoints.json"
    found = json.loads(file.read_text())
    assert set(found) == {"s3", "api", "admin_token", "pid"}
    assert found["pid"] == service.pid
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert httpx.get(f"{found['api']}/healthz").json() == {"status": "ok"}
    assert httpx.get(found["s3"]).status_code == 403


def test_secret_files_are_private(service: RunningService) -> None:
    for name in ("run/settings.json", "admin.token", "secret.key"):
        assert stat.S_IMODE((service.data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((service.data / "run").stat().st_mode) == 0o711


def test_every_gateway_is_registered_and_listed(service: RunningService) -> None:
    assert len(service.gateway_pids()) == 2
    status = service.cli("status")
    assert (status["service"], status["s3"], status["gateways"]) == ("ready", service.s3_url, 2)


def test_a_second_start_on_the_same_directory_is_refused_and_names_the_first(service: RunningService) -> None:
    done = service.run_cli("up")
    assert done.returncode == 1
    assert f"already runs on {service.data} (pid {service.pid})" in done.stderr
    assert httpx.get(f"{service.api_url}/healthz").status_code == 200


def test_a_second_service_on_the_same_port_is_refused(service: RunningService, tmp_path: Path) -> None:
    port = service.s3_url.rpartition(":")[2]
    command = [str(TIDEGATE), "up", "--data", str(tmp_path / "other"), "--set", f"gateway.port={port}"]
    done = subprocess.run([*command, "--set", "api.port=0"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert f"port {port}" in done.stderr
    assert not (tmp_path / "other" / "run" / "endpoints.json").exists()


def test_bad_settings_end_the_start_with_a_message(tmp_path: Path) -> None:
    command = [str(TIDEGATE), "up", "--data", str(tmp_path / "data"), "--set", "gateway.port=many"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "gateway.port" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pool_is_created_woken_used_and_logged(service: RunningService, fresh_name: Callable[[str], str]) -> None:
    key = service.create_pool(fresh_name("pool"))
    bucket = fresh_name("bucket")
    s3 = service.s3(key)
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="a:b/c\nd😀", Body=b"hello")
    assert s3.get_object(Bucket=bucket, Key="a:b/c\nd😀")["Body"].read() == b"hello"
    shown = service.cli("pool", "show", key.pool)
    assert (shown["state"], bool(shown["endpoint"])) == ("READY", True)
    done = service.run_cli("metalog", "tail", "--bucket", bucket, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(event["operation"], event["key"]) for event in events] == [("bucket-created", ""), ("put", "a:b/c\nd😀")]


def test_a_change_on_a_running_pool_holds_when_the_command_returns(
    service: RunningService, fresh_name: Callable[[str], str]
) -> None:
    first = service.create_pool(fresh_name("pool"))
    bucket = fresh_name("bucket")
    service.s3(first).create_bucket(Bucket=bucket)
    second = service.create_key(first.pool, "--policy", "readonly")
    assert service.s3(second).list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    service.cli("bucket", "policy", bucket, "public")
    service.s3(None).put_object(Bucket=bucket, Key="open", Body=b"x")
    service.cli("key", "delete", second.access_key, "--yes")
    with pytest.raises(service.s3(second).exceptions.ClientError, match="InvalidAccessKeyId"):
        service.s3(second).list_objects_v2(Bucket=bucket)


def test_the_tail_follows_new_events(service: RunningService, fresh_name: Callable[[str], str]) -> None:
    bucket = fresh_name("bucket")
    s3 = service.s3(service.create_pool(fresh_name("pool")))
    s3.create_bucket(Bucket=bucket)
    command = [str(TIDEGATE), "metalog", "tail", "--follow", "--json", "-n", "0", "--bucket", bucket]
    follower = subprocess.Popen([*command, "--data", str(service.data)], stdout=subprocess.PIPE, text=True)
    try:
        assert follower.stdout is not None
        # It shows what comes after it has started, and nobody but itself knows when that was.
        while not select.select([follower.stdout], [], [], 0.2)[0]:
            s3.put_object(Bucket=bucket, Key="a", Body=b"x")
        event = json.loads(follower.stdout.readline())
        assert (event["operation"], event["bucket"], event["key"]) == ("put", bucket, "a")
    finally:
        follower.terminate()
        follower.communicate()
    assert follower.returncode == -signal.SIGTERM


def test_a_killed_gateway_is_replaced_and_the_door_stays_open(make_service: MakeService) -> None:
    running = make_service(gateway__processes=2)
    before = running.gateway_pids()
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    statuses = {httpx.get(running.s3_url, timeout=30).status_code for _ in range(20)}
    assert statuses == {403}
    wait_for(lambda: len(running.gateway_pids() - before) == 1, "a new gateway is registered")
    assert running.pid == running.cli("status")["pid"]
    text = httpx.get(f"{running.api_url}/metrics").text
    assert 'tidegate_child_restarts_total{component="gateway"} 1.0' in text


def test_a_killed_api_is_replaced(make_service: MakeService) -> None:
    running = make_service(gateway__processes=1, lifecycle__enabled=False)
    (api,) = running.pids_of("tidegate.web.serve")
    os.kill(api, signal.SIGKILL)
    assert httpx.get(f"{running.api_url}/healthz", timeout=90).status_code == 200


def test_sigterm_ends_everything_in_order(make_service: MakeService) -> None:
    running = make_service(gateway__processes=2)
    s3 = running.s3(running.create_pool("physics"))
    s3.create_bucket(Bucket="results")
    shown = running.cli("pool", "show", "physics")
    assert {shown["manager_pid"], shown["backend_pid"]} <= set(running.processes())
    started = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - started < 15  # a promise of the service, not a measurement
    assert running.processes() == []
    assert not (running.data / "run" / "endpoints.json").exists()
    assert running.cli("status")["service"] == "stopped"


def test_what_was_stored_is_there_after_a_restart(make_service: MakeService) -> None:
    running = make_service(gateway__processes=1)
    key = running.create_pool("physics")
    s3 = running.s3(key)
    s3.create_bucket(Bucket="results")
    s3.put_object(Bucket="results", Key="kept", Body=b"contents")
    token = running.endpoints["admin_token"]
    running.stop()
    again = make_service(data=running.data, gateway__processes=1)
    assert again.endpoints["admin_token"] == token
    assert again.s3(key).get_object(Bucket="results", Key="kept")["Body"].read() == b"contents"


def test_two_interrupts_end_it_as_well(make_service: MakeService) -> None:
    running = make_service(gateway__processes=1, gateway__drain_seconds=10)
    assert running.process is not None
    running.process.send_signal(signal.SIGINT)
    assert running.stop(signal.SIGINT) == 0
    assert running.processes() == []


def test_children_end_when_the_supervisor_is_killed_and_the_next_start_takes_over(make_service: MakeService) -> None:
    running = make_service(gateway__processes=1)
    key = running.create_pool("physics")
    running.s3(key).create_bucket(Bucket="results")
    shown = running.cli("pool", "show", "physics")
    pool_processes = {shown["manager_pid"], shown["backend_pid"]}
    assert running.process is not None
    running.process.kill()
    running.process.wait()
    wait_for(lambda: set(running.processes()) <= pool_processes, "gateway and API have ended")
    again = make_service(data=running.data, gateway__processes=1)
    assert again.s3(key).list_buckets()["Buckets"][0]["Name"] == "results"
    assert again.cli("pool", "show", "physics")["backend_pid"] == shown["backend_pid"]
    assert again.stop() == 0
    assert again.processes() == []


def test_a_gateway_that_cannot_start_ends_the_service_with_a_message(tmp_path: Path) -> None:
    """Its access log cannot be opened, which only the gateway finds out."""
    data = tmp_path / "data"
    (data / "log" / "access.log").mkdir(parents=True)
    command = [str(TIDEGATE), "up", "--data", str(data), "--set", "gateway.port=0", "--set", "api.port=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 1
    assert re.search(r"tidegate: gateway \d ended 3 times", done.stderr)
    assert RunningService(data).processes() == []


def test_the_demo_prints_the_same_key_at_every_start(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        command = [str(TIDEGATE), "up", "--demo", "--data", str(tmp_path / "data"), "--json"]
        for setting in ("gateway.port=0", "api.port=0", "gateway.processes=1"):
            command += ["--set", setting]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                line = process.stdout.readline()
                assert line, "it ended before it was ready"
                text += line
            seen.append(json.loads(text))
            process.terminate()
    assert seen[0]["access_key"] == seen[1]["access_key"]
    assert seen[0]["secret_key"] == seen[1]["secret_key"]
    assert stat.S_IMODE((tmp_path / "data" / "demo.json").stat().st_mode) == 0o600


def test_the_access_log_holds_one_line_per_request(service: RunningService) -> None:
    file = service.data / "log" / "access.log"
    httpx.get(f"{service.s3_url}/asked-once-for-its-line/key", headers={"User-Agent": "probe/1"})
    wait_for(lambda: file.exists() and "asked-once-for-its-line" in file.read_text(), "the line is written")
    (line,) = [text for text in file.read_text().splitlines() if "asked-once-for-its-line" in text]
    assert line.startswith("127.0.0.1 ")
    assert '"GET /asked-once-for-its-line/key HTTP/1.1" 404' in line
    assert '"probe/1"' in line


def test_commands_on_a_running_service_use_its_settings(make_service: MakeService) -> None:
    running = make_service(gateway__processes=1)
    rows = running.run_cli("settings", "show", "--set", "gateway.processes=7", "--json")
    found = {row["name"]: row["value"] for row in json.loads(rows.stdout)}
    assert found["gateway.processes"] == 1
    assert "running" in rows.stderr


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A self-signed certificate for localhost: the files of certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))
    return str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")


def test_gateway_and_api_speak_tls_when_they_have_a_certificate(
    make_service: MakeService, certificate: tuple[str, str]
) -> None:
    file, key = certificate
    running = make_service(
        gateway__processes=1,
        gateway__tls_certificate=file,
        gateway__tls_key=key,
        api__tls_certificate=file,
        api__tls_key=key,
    )
    trusted = ssl.create_default_context(cafile=file)
    assert running.s3_url.startswith("https://127.0.0.1:")
    assert httpx.get(running.s3_url, verify=trusted).status_code == 403
    assert httpx.get(f"{running.api_url}/healthz", verify=trusted).status_code == 200
    with pytest.raises(httpx.TransportError):
        httpx.get(running.s3_url.replace("https", "http"))


def test_a_certificate_that_cannot_be_read_is_refused_before_anything_starts(tmp_path: Path) -> None:
    command = [str(TIDEGATE), "up", "--data", str(tmp_path / "data"), "--set", "gateway.tls_certificate=/none.pem"]
    done = subprocess.run([*command, "--set", "gateway.tls_key=/none.key"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "gateway.tls_certificate" in done.stderr


def test_a_pool_is_started_and_stopped_without_the_service(tmp_path: Path) -> None:
    idle = RunningService(tmp_path / "data")
    try:
        idle.create_pool("physics")
        endpoint = idle.cli("pool", "start", "physics")["endpoint"]
        with httpx.Client(transport=httpx.HTTPTransport(uds=endpoint)) as outsider:
            assert outsider.get("http://localhost").status_code == 403
        assert idle.cli("pool", "show", "physics")["endpoint"] == endpoint
        idle.cli("pool", "stop", "physics")
        assert idle.processes() == []
    finally:
        idle.end()
