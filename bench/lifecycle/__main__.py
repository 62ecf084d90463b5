"""`python -m bench.lifecycle`: planning, acting and walking, each beside its peers, and which goals were reached."""

from __future__ import annotations

from bench.lifecycle import acting, planning, walking


def main() -> None:
    for name, bench in (("Acting", acting), ("Planning", planning), ("Walking", walking)):
        print(f"{name}\n", flush=True)
        bench.run()
        print(flush=True)


if __name__ == "__main__":
    main()
