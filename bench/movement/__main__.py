"""`python -m bench.movement`: copies, deletes and reads, each beside its peer, and which goals were reached."""

from __future__ import annotations

from bench.movement import copies, deletion, reads


def main() -> None:
    for name, bench in (("Copies", copies), ("Deletion", deletion), ("Reads of moved objects", reads)):
        print(f"{name}\n", flush=True)
        bench.run()
        print(flush=True)


if __name__ == "__main__":
    main()
