"""A page of another origin in a real browser: uploads by presigned URL and by form, and reads back what it may."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from playwright.sync_api import Page, sync_playwright
from running_service import RunningService

PAGE = b"<!doctype html><meta charset=utf-8><title>page of another origin</title><body></body>"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SIZE = 3 << 20
UPLOAD = """async ({url, size}) => {
    const body = new Uint8Array(size).map((_, at) => at % 251);
    const headers = {'Content-Type': 'application/x-page'};
    const answer = await fetch(url, {method: 'PUT', body, headers});
    return {status: answer.status, etag: answer.headers.get('ETag'), server: answer.headers.get('Server')};
}"""
POST = """async ({url, fields, name, text}) => {
    const form = new FormData();
    for (const [field, value] of Object.entries(fields)) form.append(field, value);
    form.append('file', new File([text], name, {type: 'text/plain'}));
    const answer = await fetch(url, {method: 'POST', body: form});
    return {status: answer.status, etag: answer.headers.get('ETag'), text: await answer.text()};
}"""
READ = """async url => {
    const answer = await fetch(url);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const same = bytes.every((byte, at) => byte === at % 251);
    const text = new TextDecoder().decode(bytes.slice(0, 999));
    return {status: answer.status, size: bytes.length, same, text};
}"""
SUBMIT = """({url, fields, text}) => {
    const form = document.createElement('form');
    Object.assign(form, {action: url, method: 'post', enctype: 'multipart/form-data'});
    const add = (name, type) => {
        const input = Object.assign(document.createElement('input'), {name, type});
        form.append(input);
        return input;
    };
    for (const [field, value] of Object.entries(fields)) add(field, 'hidden').value = value;
    const chosen = new DataTransfer();
    chosen.items.add(new File([text], 'C:\\\\dir\\\\chosen "é".txt'));
    add('file', 'file').files = chosen.files;
    document.body.append(form);
    form.submit();
}"""


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def web_site() -> Iterator[str]:
    """The origin of a small web server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


@contextmanager
def browser_page() -> Iterator[Page]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program is not None, "Chromium is missing: scripts/setup.sh dev says how to get it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser.new_page()
        finally:
            browser.close()


def is_blocked(page: Page, script: str, argument: Any) -> bool:
    """Whether the browser does not let the page see what came of its request."""
    try:
        page.evaluate(script, argument)
    except Exception as error:
        assert "Failed to fetch" in str(error), error
        return True
    return False


def test_a_page_of_another_origin_uploads_and_reads_where_the_rules_let_it(
    service: RunningService, fresh_name: Callable[[str], str]
) -> None:
    key = service.create_pool(fresh_name("browser"))
    bucket = fresh_name("browser-bucket")
    s3 = service.s3(key, signature_version="s3v4")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="known", Body=b"known")

    def url(method: str, name: str, **options: str) -> str:
        return s3.generate_presigned_url(method, {"Bucket": bucket, "Key": name, **options})

    def form(name: str, **fields: str) -> dict[str, Any]:
        conditions = [{field: value} for field, value in fields.items()]
        made = s3.generate_presigned_post(bucket, name, fields, [*conditions, ["content-length-range", 1, 1000]])
        return {"url": made["url"], "fields": made["fields"]}

    upload = {"url": url("put_object", "put", ContentType="application/x-page"), "size": SIZE}
    with web_site() as origin, browser_page() as page:
        page.goto(origin)

        # Without a rule the page neither gets past the preflight nor sees a reply.
        assert is_blocked(page, READ, url("get_object", "known"))
        assert is_blocked(page, UPLOAD, upload)
        assert is_blocked(page, POST, form("unseen") | {"name": "n", "text": "t"})
        assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["known", "unseen"]

        rule = {"AllowedOrigins": [origin], "AllowedMethods": ["GET", "PUT", "POST"], "ExposeHeaders": ["ETag"]}
        rules = [rule | {"AllowedHeaders": ["content-type"]}]
        s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": rules})
        put = page.evaluate(UPLOAD, upload)
        assert put["status"] == 200
        head = s3.head_object(Bucket=bucket, Key="put")
        assert put == {"status": 200, "etag": head["ETag"], "server": None}
        assert (head["ContentLength"], head["ContentType"]) == (SIZE, "application/x-page")
        read = page.evaluate(READ, url("get_object", "put"))
        assert (read["status"], read["size"], read["same"]) == (200, SIZE, True)

        fields = form("forms/${filename}", **{"x-amz-meta-by": "a page", "success_action_status": "201"})
        posted = page.evaluate(POST, fields | {"name": "naïve.txt", "text": "from the page"})
        assert (posted["status"], "<Key>forms/naïve.txt</Key>" in posted["text"]) == (201, True)
        assert page.evaluate(READ, url("get_object", "forms/naïve.txt"))["text"] == "from the page"
        assert s3.head_object(Bucket=bucket, Key="forms/naïve.txt")["Metadata"] == {"by": "a page"}

        # What is refused can be read, too.
        large = page.evaluate(POST, form("large") | {"name": "n", "text": "x" * 1001})
        assert (large["status"], "<Code>EntityTooLarge</Code>" in large["text"]) == (400, True)
        missing = page.evaluate(READ, url("get_object", "missing"))
        assert (missing["status"], "<Code>NoSuchKey</Code>" in missing["text"]) == (404, True)

        # A form that the browser sends itself, and that brings it back.
        sent = form("sent/${filename}", success_action_redirect=f"{origin}/done")
        with page.expect_navigation(url=f"{origin}/done?**"):
            page.evaluate(SUBMIT, sent | {"text": "by the browser"})
        (stored,) = s3.list_objects_v2(Bucket=bucket, Prefix="sent/")["Contents"]
        assert s3.get_object(Bucket=bucket, Key=stored["Key"])["Body"].read() == b"by the browser"
        assert f"etag=%22{stored['ETag'].strip(chr(34))}%22" in page.url

        # Another origin has no rule, though the links are the same.
        page.goto(origin.replace("127.0.0.1", "localhost"))
        assert is_blocked(page, READ, url("get_object", "known"))
