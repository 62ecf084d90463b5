"""What all pages share: the frame around them, and tables. They load nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from string import Template

from fastapi.responses import HTMLResponse

from tidegate import __version__

_TEMPLATES = Path(__file__).parent / "templates"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


def page(title: str, content: str, *, refresh_seconds: int = 0) -> HTMLResponse:
    """`content` is HTML; the page is loaded again and again if so many seconds are given."""
    template = Template((_TEMPLATES / "page.html").read_text())
    refresh = f'<meta http-equiv="refresh" content="{refresh_seconds}">' if refresh_seconds else ""
    text = template.substitute(title=escape(title), content=content, version=escape(__version__), refresh=refresh)
    return HTMLResponse(text, headers=_HEADERS)


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], empty: str) -> str:
    if not rows:
        return f"<p>{escape(empty)}</p>"
    head = "".join(f"<th scope=col>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def shown_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
