# `make help` lists what can be done.
.DEFAULT_GOAL := help
.PHONY: help setup run test check lint format docs lock bench fuzz differential probe crashes histories races move-races move-kills replication-kills undo clients clean

PYTHON_VENV := .venv/bin/python
DATA ?= .tidegate
# More than there are cores, since tests also wait: for stores that start, for days of seconds.
WORKERS ?= 4
PYTEST = $(PYTHON_VENV) -m compileall -q tidegate && $(PYTHON_VENV) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 19

setup: ## .venv with the locked dependencies and the command tidegate
	@scripts/setup.sh

run: setup ## the service with a pool to try, in the foreground (DATA=.tidegate)
	@.venv/bin/tidegate up --demo --data $(DATA)

test: ## every test, with the real Redis, Kafka, Spark and SeaweedFS (WORKERS=4 side by side)
	@scripts/setup.sh dev
	@$(PYTEST) $(TESTS)

check: lint ## lint, types and the unit tests that need no Spark: two minutes
	@$(PYTEST) -m "not spark" tests/unit

lint: ## ruff and mypy
	@scripts/setup.sh dev
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/mypy

format: ## puts the code into the house's format
	@scripts/setup.sh dev
	@.venv/bin/ruff check --fix
	@.venv/bin/ruff format

docs: setup ## writes the generated pages docs/settings.md, docs/cli.md, docs/metrics.md and docs/errors.md
	@$(PYTHON_VENV) scripts/generate_docs.py

lock: ## writes requirements/*.lock anew
	@scripts/lock.sh

bench: ## the gateway beside nginx and the bare store, listings, a mixed load, the log; lifecycle beside SeaweedFS's own, DuckDB and bare listings; movement and replication beside rclone
	@scripts/setup.sh dev
	@$(PYTHON_VENV) -m bench.gateway
	@$(PYTHON_VENV) -m bench.listing
	@$(PYTHON_VENV) -m bench.mixed
	@$(PYTHON_VENV) -m bench.lifecycle
	@$(PYTHON_VENV) -m bench.movement
	@$(PYTHON_VENV) -m bench.replication
	@$(PYTHON_VENV) -m bench.idle
	@$(PYTHON_VENV) -m bench.log

fuzz: ## 100,000 malformed requests against the gateway (FUZZ_REQUESTS, FUZZ_SEED)
	@scripts/setup.sh dev
	@FUZZ_REQUESTS=$${FUZZ_REQUESTS:-100000} $(PYTHON_VENV) -m pytest -s tests/probe/test_malformed.py

differential: ## 100,000 odd requests: what is admitted and logged is what a store gets (DIFFERENTIAL_REQUESTS, DIFFERENTIAL_SEED)
	@scripts/setup.sh dev
	@DIFFERENTIAL_REQUESTS=$${DIFFERENTIAL_REQUESTS:-100000} $(PYTHON_VENV) -m pytest -s tests/probe/test_differential.py tests/probe/test_differential_store.py

probe: ## 10,000 mixed operations and a killed gateway, then the metadata log replayed (PROBE_OPERATIONS)
	@scripts/setup.sh dev
	@PROBE_OPERATIONS=$${PROBE_OPERATIONS:-10000} $(PYTHON_VENV) -m pytest tests/probe/test_log_replay.py

crashes: ## processes killed at random points over 50 rounds of passes (CRASH_PASSES, CRASH_SEED)
	@scripts/setup.sh dev
	@CRASH_PASSES=$${CRASH_PASSES:-50} $(PYTHON_VENV) -m pytest -s tests/integration/lifecycle/test_pass_kills.py

histories: ## 20,000 generated buckets through many passes: what is planned is what the core says (HISTORIES)
	@scripts/setup.sh dev
	@HISTORIES=$${HISTORIES:-20000} $(PYTHON_VENV) -m pytest $(addprefix tests/unit/pipeline/plan/test_pipeline_,evaluate.py histories.py passes.py)

races: ## 10,000 objects that are due, each rewritten while its delete runs (RACES, RACES_SEED)
	@scripts/setup.sh dev
	@RACES=$${RACES:-10000} $(PYTHON_VENV) -m pytest tests/probe/test_races.py

move-races: ## 2,000 objects that move, each changed by a client meanwhile (MOVE_RACES, MOVE_RACES_SEED)
	@scripts/setup.sh dev
	@MOVE_RACES=$${MOVE_RACES:-2000} $(PYTHON_VENV) -m pytest tests/probe/test_move_races.py

move-kills: ## processes killed at 200 random points while objects move, there and back (MOVE_KILLS, MOVE_KILLS_SEED)
	@scripts/setup.sh dev
	@MOVE_KILLS=$${MOVE_KILLS:-200} $(PYTHON_VENV) -m pytest -s tests/probe/test_move_kills.py

replication-kills: ## processes killed at 100 random points while clients write and all is replicated to two stores (REPLICATION_KILLS, REPLICATION_KILLS_SEED)
	@scripts/setup.sh dev
	@REPLICATION_KILLS=$${REPLICATION_KILLS:-100} $(PYTHON_VENV) -m pytest -s tests/probe/test_replication_kills.py

undo: ## a wrong rule deletes 10,000 objects, and one command brings them back (UNDO_OBJECTS)
	@scripts/setup.sh dev
	@UNDO_OBJECTS=$${UNDO_OBJECTS:-10000} $(PYTHON_VENV) -m pytest tests/integration/movement/test_undelete.py -k wrong_rule

clients: ## syncs by mc, which is built with Go first
	@scripts/setup.sh dev
	@scripts/go_clients.sh
	@$(PYTHON_VENV) -m pytest tests/integration/clients/go_clients.py

clean: ## removes what was built; the data directory stays
	@rm -rf .venv .tools build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
