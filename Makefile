PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
BASE_STAMP := $(VENV)/.installed
# one for each dependency group: .group-test, .group-conformance, .group-bench, .group-coverage
GROUP_STAMP := $(VENV)/.group
# versions of foreign packages are in tests/pins, each set in its own folder of .scratch
AIMOCK_STAMP := .scratch/aimock/.ready-pins
NODE_SDKS_STAMP := .scratch/node_sdks/.ready-pins
NODE_AGENTS_STAMP := .scratch/node_agents/.ready-pins
AXE_STAMP := .scratch/axe/.ready-pins
MCP_CLIENTS_STAMP := .scratch/mcp1/.ready-pins .scratch/mcp2/.ready-pins .scratch/node_mcp/.ready-pins
MCP_CONFORMANCE_STAMP := .scratch/mcp_conformance/.ready-pins
# the vendors' own suites, in the sources of the SDKs that are installed
VENDOR_SUITES := .scratch/vendor_suites
VENDOR_SDKS := $(shell grep -E '^(openai|anthropic)==' constraints.txt)
VENDOR_SUITES_STAMP := $(VENDOR_SUITES)/.ready-$(subst ==,-,$(subst $(eval ) ,-,$(VENDOR_SDKS)))
NPM := $(shell command -v npm)
WORKS_WITH_STAMP := .scratch/.works-with
# slow to start, and quick to change with what others release: CI runs them beside the tests
CONFORMANCE := tests/integrations tests/wire/frameworks tests/wire/intercept_clients tests/wire/node tests/wire/protocols tests/wire/tools_of tests/wire/vendor_suites tests/report/exploration/test_page_in_browser.py tests/report/scenarios/test_page_in_browser.py tests/mcp/clients tests/mcp/agents tests/mcp/protocol tests/view/pages tests/workers/cluster tests/works_with/test_programs.py
# explored with every fault, which takes minutes; its programs wait more than they work, hence more workers than cores
ZOO := tests/explore/test_agents.py tests/docs/test_tutorials.py
# tests that try a sample of their cases in 'make test', and every case in 'make zoo'
SAMPLED := tests/cli/commands/test_init.py tests/cli/commands/test_resume_crashes.py tests/explore/test_sharing.py tests/explore/test_tools_of_programs.py tests/mcp/test_shared.py tests/recording/test_concurrent_writers.py tests/recording/test_crashes.py tests/subjects/test_function_sdks.py
# looks at what docs-site has built
SITE := tests/docs/test_site.py
# tests that fork: apart from the others, so that a fork copies the tables of a small process
FORKING := tests/cli tests/docs tests/examples tests/explore tests/pytest_plugin tests/subjects tests/workers
# tests that load vendors' SDKs, which takes seconds in each worker: in few workers, beside the others
SDKS := tests/wire tests/codecs/test_openai_responses_sdk.py
# one worker more than cores: many tests wait for a process that they have started
TEST_WORKERS := $(shell echo $$((1 + $$(nproc))))
SDK_WORKERS := $(shell echo $$((($$(nproc) + 1) / 2)))
OTHER_WORKERS := $(shell echo $$(($(TEST_WORKERS) - $(SDK_WORKERS))))
PYTEST = $(BIN)/python -m pytest --dist worksteal $(addprefix --ignore=,$(CONFORMANCE) $(ZOO) $(SITE))
ZOO_WORKERS := $(shell echo $$((2 * $$(nproc))))

# tests start many Python processes, and none should compile again what the one before has
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup aimock axe node-sdks node-agents mcp-clients vendor-suites demo test check layers types tests conformance works-with zoo coverage bench soak docs docs-site screenshots constraints format clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(GROUP_STAMP)-test ## Make .venv with what checks and tests need

$(BASE_STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV); this takes a moment, once."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade "pip>=25.1"
	@$(PIP) --constraint constraints.txt --editable '.[workflows]'
	@touch $@

$(GROUP_STAMP)-%: $(BASE_STAMP)
	@echo "Adding the dependency group '$*'; this takes a moment, once."
	@$(PIP) --no-compile --constraint constraints.txt --group $*
	@$(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib || true # on all cores; files for other Pythons stay as they are
	@touch $@

aimock: $(AIMOCK_STAMP) ## Install the foreign mock server that the providers are tested against
node-sdks: $(NODE_SDKS_STAMP) ## Install the vendors' SDKs for Node that the wire server is tested with
node-agents: $(NODE_AGENTS_STAMP) ## Install the frameworks for Node whose tools are taken over in tests
axe: $(AXE_STAMP) ## Install the accessibility checker that pages are tested with
mcp-clients: $(MCP_CLIENTS_STAMP) $(MCP_CONFORMANCE_STAMP) ## Install the clients, agents, servers and conformance suite of MCP for the tests, each in its own environment

.scratch/%/.ready-pins: tests/pins/%/package.json
	@mkdir -p $(@D)
	cp -R $(<D)/. $(@D)
	npm install --prefix $(@D) --no-audit --no-fund --silent
	@touch $@

.scratch/%/.ready-pins: tests/pins/%/requirements.txt constraints.txt
	$(PYTHON) -m venv $(@D)
	grep -v '^mcp' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(@D)/constraints.txt --requirement $<
	@touch $@

vendor-suites: $(VENDOR_SUITES_STAMP) ## Fetch the suites of the vendors' SDKs, which are run against the server

$(VENDOR_SUITES_STAMP): | $(BASE_STAMP)
	rm -rf $(VENDOR_SUITES)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary openai,anthropic --dest $(VENDOR_SUITES) $(VENDOR_SDKS)
	cd $(VENDOR_SUITES) && for source in *.tar.gz; do tar --extract --file "$$source" || exit; done
	@touch $@

demo: $(BASE_STAMP) ## Replay a workflow, break it and change it, and explore an agent, offline; leaves report.html
	@$(BIN)/offbook demo

test: ## Run all checks and tests
	@$(MAKE) --no-print-directory --jobs 2 setup $(if $(NPM),$(AIMOCK_STAMP))
	@$(MAKE) --no-print-directory check

check: setup $(if $(NPM),$(AIMOCK_STAMP)) ## Formatting, lint, types, layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 3 layers types tests

layers: setup # beside the tests, as the types: one process each, which is quicker than they are
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

tests: setup $(if $(NPM),$(AIMOCK_STAMP))
	$(PYTEST) --numprocesses $(TEST_WORKERS) $(FORKING); forking=$$?; \
	$(PYTEST) --numprocesses $(SDK_WORKERS) $(SDKS) & \
	$(PYTEST) --numprocesses $(OTHER_WORKERS) $(addprefix --ignore=,$(FORKING) $(SDKS)) tests; others=$$?; \
	wait $$! && exit $$((forking | others))

conformance: setup $(GROUP_STAMP)-conformance $(GROUP_STAMP)-cluster $(VENDOR_SUITES_STAMP) $(if $(NPM),$(AIMOCK_STAMP) $(AXE_STAMP) $(NODE_SDKS_STAMP) $(NODE_AGENTS_STAMP) $(MCP_CLIENTS_STAMP) $(MCP_CONFORMANCE_STAMP) $(WORKS_WITH_STAMP)) ## Run Node SDKs, coding agents, frameworks, MCP clients and a browser against us
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup $(CONFORMANCE)

# the programs that CI tries, in the versions of the catalog
$(WORKS_WITH_STAMP): tests/works_with/catalog.py | $(BASE_STAMP)
	$(BIN)/python -m tests.works_with.environments --kept
	@touch $@

works-with: setup $(GROUP_STAMP)-conformance $(NODE_AGENTS_STAMP) ## Try programs and frameworks that nobody here wrote, in environments that are kept; write docs/works-with.md
	@$(BIN)/python -m tests.wire.tools_of.environments
	@$(BIN)/python -m tests.works_with.environments
	$(BIN)/python -m tests.works_with.trial
	$(BIN)/python -m tests.works_with.failures
	$(BIN)/python -m tests.works_with.table
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --junit-xml .scratch/works-with.xml tests/wire/tools_of; result=$$?; \
	$(BIN)/python -m tests.wire.tools_of.table .scratch/works-with.xml && exit $$result

zoo: setup $(GROUP_STAMP)-conformance $(if $(NPM),$(NODE_SDKS_STAMP)) ## Explore agents with planted defects and their sound twins, with every fault
	OFFBOOK_TEST_EVERY_CASE=1 $(BIN)/python -m pytest --numprocesses $(ZOO_WORKERS) --dist worksteal --timeout 1200 $(ZOO) $(SAMPLED)

constraints: ## Renew the pins in constraints.txt
	rm -rf .scratch/pins
	$(PYTHON) -m venv .scratch/pins
	.scratch/pins/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	.scratch/pins/bin/python -m pip install --quiet --disable-pip-version-check --editable . --group test --group coverage --group conformance --group cluster --group bench --group docs
	(echo "# What CI installs; renew with 'make constraints'."; .scratch/pins/bin/pip freeze --exclude-editable) > constraints.txt

format: setup ## Format the code and fix what lint can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup $(GROUP_STAMP)-bench $(GROUP_STAMP)-browser $(GROUP_STAMP)-cluster $(if $(NPM),$(AIMOCK_STAMP)) ## Measure replay, recording, gateway, agent, workflow, scenarios and server beside peers and a floor
	$(BIN)/python -m bench

soak: setup ## Run 100,000 calls, 500 streams and attacks on all fronts for ten minutes, then properties with more examples
	$(BIN)/python -m bench.soak
	OFFBOOK_HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest --numprocesses auto -m hypothesis $(addprefix --ignore=,$(CONFORMANCE) $(ZOO) $(SITE))

coverage: setup $(GROUP_STAMP)-coverage $(if $(NPM),$(AIMOCK_STAMP)) ## Run the tests and show which lines they leave out
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov --cov-report term $(addprefix --ignore=,$(CONFORMANCE) $(ZOO) $(SITE))

screenshots: setup $(GROUP_STAMP)-browser ## Take the pictures of the documentation again
	$(BIN)/python docs/pictures/screenshots.py

docs: setup ## Run every example of the documentation
	$(BIN)/python -m pytest tests/docs --ignore=$(SITE)

docs-site: setup $(GROUP_STAMP)-docs ## Build the documentation as a searchable site; a broken link is an error
	$(BIN)/python -m docs_site.build
	$(BIN)/python -m pytest $(SITE)

clean: ## Remove what was made
	rm -rf $(VENV) .coverage* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .scratch dist
