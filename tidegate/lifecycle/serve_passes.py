"""The process of the passes: `python -m tidegate.lifecycle.serve_passes --data DIR`, started by the supervisor.

The conductor runs here, and with it the engines. Nothing in memory matters: a killed pass is closed,
and its work resumed, by the next one. So this process ends fast when it is told to, whatever Spark is doing.
"""

from __future__ import annotations

import logging
import os
from functools import partial

from tidegate.assembly import embedded_files
from tidegate.lifecycle import process
from tidegate.lifecycle.passes.conductor import Conductor
from tidegate.lifecycle.passes.engines import open_engines
from tidegate.lifecycle.passes.planner import PassContext
from tidegate.lifecycle.process import ServiceContext
from tidegate.pipeline.log.manifest import DIRECTORY
from tidegate.space import shortage
from tidegate.workers.worker_thread import WorkerThread

# A gateway that ends has as long, at least; then everything is killed.
_END_SECONDS = 1.5


def main() -> None:
    code = process.run("passes", "The passes of Tidegate's lifecycle.", _serve)
    logging.shutdown()
    # Threads that wait for Spark, which is gone, would hold the process up.
    os._exit(code)


def _serve(service: ServiceContext) -> int:
    context = PassContext(service.tables, service.topics, service.stores, service.settings, service.data, service.s3)
    engines = open_engines(context, stop=service.stop)
    places = [service.data, service.data / DIRECTORY, *embedded_files(service.settings, service.data)]
    conductor = Conductor(
        service.tables,
        service.topics,
        service.settings.lifecycle,
        engines,
        shortage=partial(shortage, places, service.settings.storage.reserve_mb << 20),
    )
    role = WorkerThread("conductor", partial(conductor.run_forever, service.stop), lambda: None, service.stop)
    role.start()
    service.stop.wait()
    for engine in engines.values():
        engine.cancel()
    role.join(_END_SECONDS)
    for engine in engines.values():
        engine.kill()
    return int(role.failed)


if __name__ == "__main__":
    main()
