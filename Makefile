# `make demo` and `make test` do all their own set-up; a second run does none of it again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
READY := $(VENV)/.ready
export PATH := $(BIN):$(PATH)

.PHONY: demo test scenes bench selftest faults readme lock isolated gpu gpu-wheels
.DEFAULT_GOAL := demo

demo: $(READY) ## make audio, run every loader on every tier, render the reports, print the ranking
	@snakemake --config dataset=demo preset=quick
	@said=$$(snakemake --config dataset=demo preset=quick --report report.html 2>&1) || { echo "$$said"; false; }
	@echo "Snakemake's own report: report.html"

# Three tests at a time, of which many wait, and then one after the other those that measure; it fails where either call does.
test: $(READY) ## every test
	@sh envs/test_browser.sh
	@ruff check .
	@ruff format --check --quiet .
	@python -m pytest -m "not alone" -n 3; beside=$$?; python -m pytest -m alone $$(grep -rl 'mark\.alone' tests --include='test_*.py') && exit $$beside

scenes: $(READY) ## what the terminal, the page and errors say in the tests, written anew (tests/scenes); read `git diff`
	@python -m tests.scenes.renew

bench: $(READY) ## ratios, each measured side by side in one run
	@python -m bench.bench

selftest: $(READY) ## proof that the instrument and what is said are right, some thirty-five minutes
	@python -m bench.selftest

# What `make gpu` needs of requirements.lock: 6 GB instead of 8. WHEELS names a folder of them, for a machine without a registry.
GPU_PACKAGES := torch numpy nvidia-dali-cuda120 nvidia-ml-py psutil pytest pytest-timeout pytest-xdist \
	lightning pandas pillow simplejpeg soundfile tensordict tqdm jsonschema PyYAML xxhash
WHEELS ?=
GPU_READY := $(VENV)/.gpu_ready

gpu: ## on a machine with a GPU: all that touches it, proven and measured, one table in at most 20 minutes (docs/gpu.md)
	@began=$$(date +%s); $(PYTHON) -m bench.gpu --look && \
		{ test -f $(READY) || $(MAKE) --no-print-directory $(GPU_READY); } && python -m bench.gpu --began $$began

gpu-wheels: ## fill the folder WHEELS (wheels, unless told) with what `make gpu` installs, to be carried there
	@$(PYTHON) -m pip download --quiet --dest $(or $(WHEELS),wheels) --constraint requirements.lock $(GPU_PACKAGES)

$(GPU_READY): requirements.lock
	@test -x "$(BIN)/python" || $(PYTHON) -m venv $(VENV)
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --constraint requirements.lock \
		$(if $(WHEELS),--no-index --find-links $(WHEELS)) $(GPU_PACKAGES)
	@touch $@

faults: $(READY) ## every planted fault, some fifteen minutes, most as root; writes results/reliability.md
	@python -m tests.faults

TABLES := results/tables/demo
readme: $(READY) ## the README's ranking and picture, from the session of the last `make demo`; wants Chromium
	@sh envs/test_browser.sh
	@feedrate figures --tables $(TABLES) --out $(VENV)/readme/figures
	@feedrate report --tables $(TABLES) --figures $(VENV)/readme/figures --out $(VENV)/readme/index.html
	@python -m bench.report_picture --report $(VENV)/readme/index.html --out docs/report.png
	@python -m scripts.report.write_readme --tables $(TABLES)

lock: $(READY) ## renew requirements.lock, envs/isolated/*.lock and envs/*.yaml from pyproject.toml
	@python -m envs.make_envs requirements > $(VENV)/requirements.in
	@pip-compile --quiet --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--no-emit-options --no-header --annotation-style line -o requirements.lock $(VENV)/requirements.in
	@sed -i 's# -r [^ ,]*requirements.in# pyproject.toml#' requirements.lock
	@python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@python -m envs.make_envs isolated
	@python -m envs.install_isolated
	@python -m envs.make_envs

isolated: $(READY) ## try again to install what clashes with the other packages, each into a folder of its own
	@python -m envs.install_isolated

$(READY): requirements.lock $(wildcard envs/isolated/*.lock) envs/system_packages.sh envs/feedrate.sh
	@PYTHON=$(PYTHON) sh envs/system_packages.sh
	@test -x "$(BIN)/python" || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned packages into $(VENV) (about 8 GB, once) ..."
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@"$(BIN)/python" -m envs.install_isolated
	@install -m 755 envs/feedrate.sh "$(BIN)/feedrate"
	@touch $@
