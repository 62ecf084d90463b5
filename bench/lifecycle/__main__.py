"""`python -m bench.lifecycle`: planning, acting and walking, each beside its peers, and which goals were reached."""

from __future__ import annotations

from bench.lifecycle import acting, planning, walking


def main() -> None:
    for name, bench in (("Acting", acting), ("Planning", planning), ("Walking", walking)):
        print(f"{name}\n", flush=True)
        bench.run()
        print(flush=True)
    print("Acting on ten times as many objects\n", flush=True)
    acting.run(200_000, rounds=1)


if __name__ == "__main__":
    main()
