"""Turns the figures into ratios, and ratios into a table beside the goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.goals import word

Figures = dict[str, float]
PROXIES = ("nginx", "tidegate")


@dataclass(frozen=True, slots=True)
class Goal:
    name: str
    value: float
    limit: float

    @property
    def reached(self) -> bool:
        return self.value <= self.limit


def goals(results: dict[str, Any]) -> list[Goal]:
    found = [
        Goal(f"CPU per 1 KiB {kind.upper()}, Tidegate / nginx", _ratio(results["small"][kind], "cpu"), limit)
        for kind, limit in (("get", 1.5), ("put", 3.0))
    ]
    found += [
        Goal(f"CPU per MiB of 64 MiB {kind.upper()}, Tidegate / nginx", _ratio(results["large"][kind], "cpu"), 1.0)
        for kind in ("get", "put")
    ]
    connections = results["options"]["connections"]
    found += [
        Goal(f"ms added to 1 KiB PUT at p50, {count}", _added_milliseconds(ways["put"]), limit)
        for count, ways, limit in (
            ("1 connection", results["unloaded"], 1.0),
            (f"{connections} connections", results["small"], 3.0),
        )
    ]
    if "log" in results:
        found.append(Goal("share of PUT throughput that the metadata log costs", results["log"]["share"], 0.10))
    return found


def as_table(results: dict[str, Any]) -> str:
    lines = [_row("", "direct", "nginx", "Tidegate", "Tidegate / nginx"), "-" * 92]
    for kind, ways in results["small"].items():
        lines += _throughput(f"1 KiB {_named(kind)}", ways, "requests/s", "µs CPU per request")
    for kind, ways in results["large"].items():
        lines += _throughput(f"64 MiB {_named(kind)}", ways, "MiB/s", "ms CPU per MiB")
    for kind, ways in results["unloaded"].items():
        lines += _latency(f"1 KiB {kind.upper()}, 1 connection", ways)
    for kind, ways in results["small"].items():
        lines += _latency(f"1 KiB {kind.upper()}, {results['options']['connections']} connections", ways)
    lines += _memory(results["idle"], results["options"]["idle_connections"])
    if "log" in results:
        lines += ["", _log_line(results["log"])]
    failures = sum(int(figures["failures"]) for figures in _all_figures(results))
    lines += ["", f"failed requests: {failures}", "", "goals:"]
    for goal in goals(results):
        lines.append(f"  {goal.name:58} {goal.value:6.2f}  (at most {goal.limit:.2f}: {word(goal.reached)})")
    return "\n".join(lines)


def failed_requests(results: dict[str, Any]) -> int:
    return sum(int(figures["failures"]) for figures in _all_figures(results))


def _all_figures(results: dict[str, Any]) -> list[Figures]:
    return [
        figures
        for part in ("small", "large", "unloaded")
        for kind in results[part].values()
        for figures in kind.values()
    ] + [results["log"][state] for state in ("on", "off") if "log" in results]


def _throughput(name: str, ways: dict[str, Figures], rate_unit: str, cpu_unit: str) -> list[str]:
    return [
        _row(
            f"{name}, {rate_unit}", *(f"{ways[way]['rate']:.0f}" for way in ("direct", *PROXIES)), _shown(ways, "rate")
        ),
        _row(f"{name}, {cpu_unit}", "", *(f"{ways[way]['cpu']:.2f}" for way in PROXIES), _shown(ways, "cpu")),
        _row(
            f"{name}, whole service", "", "", f"{ways['tidegate']['cpu_with_rest']:.2f}", _shown(ways, "cpu_with_rest")
        ),
    ]


def _latency(name: str, ways: dict[str, Figures]) -> list[str]:
    rows = []
    for point in ("p50", "p99"):
        direct = ways["direct"][point] * 1e6
        added = [ways[way][point] * 1e6 - direct for way in PROXIES]
        rows.append(_row(f"{name}, µs at {point}, added", f"{direct:.0f}", *(f"{value:+.0f}" for value in added), ""))
    return rows


def _memory(idle: dict[str, dict[str, int]], connections: int) -> list[str]:
    values = [idle[way]["pss_kib"] / 1024 for way in PROXIES]
    each = [idle[way]["bytes_per_connection"] for way in PROXIES]
    return [
        _row(f"MiB (PSS), {connections} idle connections", "", *(f"{value:.1f}" for value in values), _over(*values)),
        _row("bytes per idle connection", "", *(f"{value}" for value in each), _over(*each)),
    ]


def _log_line(log: dict[str, Any]) -> str:
    on, off = log["on"]["rate"], log["off"]["rate"]
    return f"metadata log: {on:.0f} PUT/s with it, {off:.0f} PUT/s without, {log['share']:.1%} of the throughput"


def _ratio(ways: dict[str, Figures], figure: str) -> float:
    return ways["tidegate"][figure] / ways["nginx"][figure]


def _added_milliseconds(ways: dict[str, Figures]) -> float:
    return (ways["tidegate"]["p50"] - ways["direct"]["p50"]) * 1e3


def _shown(ways: dict[str, Figures], figure: str) -> str:
    return f"{_ratio(ways, figure):.2f}"


def _over(nginx: float, tidegate: float) -> str:
    return f"{tidegate / nginx:.2f}" if nginx > 0 else "-"


def _named(kind: str) -> str:
    method, comma, rest = kind.partition(",")
    return method.upper() + comma + rest


def _row(name: str, *cells: str) -> str:
    return f"{name:46}" + "".join(f"{cell:>11}" for cell in cells[:-1]) + f"{cells[-1]:>18}"
