"""The engines there are, by the names that the setting `lifecycle.engine` and requests have for them."""

from __future__ import annotations

from threading import Event as Flag

from tidegate.lifecycle.passes.engine import PassEngine
from tidegate.lifecycle.passes.planner import OpenPlanner, PassContext, Planner


def open_engines(context: PassContext, *, stop: Flag) -> dict[str, PassEngine]:
    planners: dict[str, OpenPlanner] = {"spark": _spark, "listing": _listing}
    return {name: PassEngine(name, opened, context, stop=stop) for name, opened in planners.items()}


# Only here: Spark and Arrow take long to load, and services without rules have no use for them.


def _spark(context: PassContext) -> Planner:
    from tidegate.lifecycle.passes.spark_planner import SparkPlanner

    return SparkPlanner(context)


def _listing(context: PassContext) -> Planner:
    from tidegate.lifecycle.passes.listing_planner import ListingPlanner

    return ListingPlanner(context)
