"""`python -m bench.lifecycle`: planning, acting and walking, each beside its peers. Fails if a goal was missed."""

from __future__ import annotations

from bench.lifecycle import acting, planning, walking


def main() -> None:
    reached = []
    for name, bench in (("Acting", acting), ("Planning", planning), ("Walking", walking)):
        print(f"{name}\n", flush=True)
        reached.append(bench.run())
        print(flush=True)
    if not all(reached):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
