# Two commands matter: `make demo` and `make test`. Both set everything up by
# themselves, and work offline once they have.

PYTHON ?= python3
BIN := .venv/bin
CDK := node_modules/.bin/cdk
# What the demo, the sandbox and a deployment need; and with what the tests need.
DEMO := build/.ready-demo
READY := build/.ready
# The scanners' own environment: checkov pins an older boto3 than the app's.
SCAN := build/scan-venv/bin
SCANNERS := build/.ready-scan
# What makes a site of the pages.
SITE := build/site-venv
READ_BY_SCANNERS := cdk.json sandbox/requirements.txt tools/__init__.py \
	lambdas/deadletter/__init__.py lambdas/deadletter/contract.py lambdas/deadletter/circuit/__init__.py \
	lambdas/deadletter/circuit/state.py \
	$(foreach room,pace settings signals,$(wildcard lambdas/deadletter/$(room)/*.py)) \
	$(shell find infra statemachines tools/scan -type f -not -path '*/__pycache__/*' -not -name '*.sha256')
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Many tests start Python anew, and each would compile the whole project.
unexport PYTHONDONTWRITEBYTECODE
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/node_modules/.bin:$(PATH)

# Each of the targets that follow on a core of its own; make 4 shows their output one by one.
SIDE_BY_SIDE := $(MAKE) --no-print-directory -j $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# Notes what a part of the day takes; `make times` shows it.
TIMED = $(BIN)/python -m tests.times run $@

.PHONY: help setup ready demo sandbox deploy synth test check beside-e2e lint types unit scan scanned audit times face e2e pager scenarios drill nightly mutation sim caught bench bench-long bench-parts bench-peers verify-aws policy lock docs site clean

# What people type most comes first; the other targets say what they do behind one hash.
help: # Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) $(SCANNERS) # Install everything: for the demo, the tests and the scanners

ready: $(DEMO) # Install what the demo, the sandbox and a deployment need

# A stamp is as new as the newest lock file that it was made from.
$(DEMO): sandbox/requirements.txt lambdas/requirements.txt tools/node/requirements.txt package-lock.json pyproject.toml
	@$(PYTHON) tools/setup.py demo
	@touch $@

$(READY): $(DEMO) requirements.txt
	@$(PYTHON) tools/setup.py test
	@touch $@

$(SCANNERS): $(READY) tools/scan/requirements.txt
	@$(PYTHON) tools/setup.py scan
	@touch $@

demo: $(DEMO) ## Watch dead messages heal, in an AWS of your own on this machine
	@$(BIN)/python -m sandbox demo

sandbox: $(DEMO) ## An AWS to type into, until Ctrl-C: MESSAGES=4000 CAUSES=3 APP=my/app.py
	@$(BIN)/python -m sandbox up $(if $(APP),--app $(APP)) $(if $(MESSAGES),--with-messages $(MESSAGES)) $(if $(CAUSES),--causes $(CAUSES)) $(if $(MODE),--mode $(MODE))

deploy: $(DEMO) ## Deploy into the AWS account your credentials name
	$(CDK) deploy --all

synth: $(DEMO) # The CloudFormation templates, into cdk.out
	$(CDK) synth --quiet

# The sandbox mostly waits for its emulator. All else has what it leaves of the cores, and is nice
# to it: what the sandbox's tests wait for comes as if they ran alone.
test: $(READY) ## Everything CI runs
	@rm -rf build/times
	@$(SIDE_BY_SIDE) e2e beside-e2e

beside-e2e: $(READY)
	@MAKEFLAGS= nice -n 10 $(MAKE) --no-print-directory check

check: lint ## What of it needs no sandbox: lint, types, scanners, tests
	@$(MAKE) --no-print-directory -j types scanned unit

times: # What the last `make test` took: CPU by groups of tests, and the costliest tests
	@$(BIN)/python -m tests.times

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(TIMED) $(BIN)/mypy

# One run, so each worker collects the tests once; it imports the CDK, whose Node no fork survives.
unit: $(READY)
	$(TIMED) $(BIN)/python -m pytest -q -n 2 --dist loadfile --times=build/times/$@.jsonl -m "not sandbox and not nightly"

scan: $(SCANNERS) # The security scanners, first over planted faults, then over the templates; build/scan-report.txt
	$(BIN)/python -m pytest -q -m nightly tests/tools/scan
	@$(TIMED) $(BIN)/python -m tools.scan $(READ_BY_SCANNERS)

# A day in which nothing that the scanners read has changed goes without them; each night has them.
scanned: $(READY)
	@$(BIN)/python -m tools.scan --clean $(READ_BY_SCANNERS) || $(MAKE) --no-print-directory scan

audit: $(SCANNERS) # Known holes in the pinned packages (needs the network)
	for lock in requirements.txt sandbox/requirements.txt lambdas/requirements.txt tools/node/requirements.txt \
		tools/scan/requirements.txt tools/site/requirements.txt; do \
		$(SCAN)/pip-audit --require-hashes --disable-pip -r $$lock || exit 1; done
	npm audit

# Collecting the ten thousand other tests takes a quarter of a minute; tests/conftest.py
# refuses a sandbox test that lies elsewhere.
e2e: $(READY)
	$(TIMED) $(BIN)/python -m pytest -q --times=build/times/$@.jsonl -m "sandbox and not nightly" tests/aws tests/e2e

sim: $(READY) # Crash simulation: SEED=n replays one schedule, RUNS=n runs many, OF=shards, long-queue, breaker, replay, replay-run, order or review; HASH=file, OUTCOME=file compare two commits
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) $(if $(FROM),--from $(FROM)) $(if $(OF),--of $(OF)) $(if $(HASH),--hash $(HASH)) $(if $(OUTCOME),--outcome $(OUTCOME))

caught: $(READY) # Search planted bugs that no recorded schedule catches any more, and record what does: OF="text of a name"
	$(BIN)/python -m tests.simulation.caught $(if $(OF),"$(OF)")

pager: $(READY) # Who is called when, measured: simulated weeks and months, judged by the real alarms
	$(BIN)/python -m pytest -q -m long tests/scenarios

scenarios: $(READY) # Outages and poisonings, measured beside three baselines: OF="outage-3m poison-5" SEEDS=n
	$(BIN)/python -m tests.scenario_bench $(OF) $(if $(SEEDS),--seeds $(SEEDS))

face: $(READY) # What a person meets: commands, options, lines, words, beside their ceilings
	@$(BIN)/python -m tools.face

drill: $(READY) # Twelve troubles side by side, each until its page ends; build/drill.md: OF="bad-rule big-backlog"
	DRILL_OF="$(OF)" $(BIN)/python -m pytest -q -s -m drill tests/drill

nightly: $(READY) ## The long runs, or parts: OF="drill bench"; results: docs/proof.md
	@$(BIN)/python -m tools.nightly $(OF)

mutation: $(READY) # Mutants of the pure modules that the tests notice: OF="redrive/turns circuit" SAMPLE=n
	$(BIN)/python -m lab.mutation $(OF) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

bench: $(READY) ## What moving messages costs beside other ways: six minutes
	$(BIN)/python -m lab.bench.moving $(OF)

bench-long: $(READY) # The same with all cases, half an hour: long queues, shards, FIFO, peers; MANY=1000000 takes a million
	$(BIN)/python -m lab.bench.moving --long

bench-parts: $(READY) # What single parts cost: rules, the library, cold starts, the dlq command, causes, webhooks, replay
	$(BIN)/python -m lab.bench.rules
	$(BIN)/python -m lab.bench.consumer
	$(BIN)/python -m lab.bench.processes
	$(BIN)/python -m lab.bench.causes
	$(BIN)/python -m lab.bench.webhooks
	$(BIN)/python -m lab.bench.replay
	$(BIN)/python -m tests.replay.figures costs outage workers

bench-peers: $(READY) # Install lumigo-cli into build/peers, and run it beside ours
	$(BIN)/python -m lab.bench.lumigo
	$(BIN)/python -m lab.bench.moving ways beside

verify-aws: $(READY) # Ask a real account what no emulator can show, and prove the product there; it asks first: ARGS="--list"
	@$(BIN)/python -m tools.verify_aws $(ARGS)

policy: synth # The least policy for CloudFormation's execution role, into build/deploy-policy.json
	@$(BIN)/python -m tools.deploy_policy

docs: $(READY) ## Write the generated pages anew
	$(BIN)/python -m tools.commands_page
	$(BIN)/python -m infra.reference
	$(BIN)/python -m tests.infra.roles
	$(BIN)/python -m tools.verify_aws --page
	$(BIN)/python -m tools.events_page
	$(BIN)/python -m tools.features_page
	$(BIN)/python -m tools.runbook
	$(BIN)/python -m tests.costs.page

site: $(SITE)/.ready # The pages as a site, in build/site; a broken link ends it
	$(SITE)/bin/sphinx-build --quiet --fail-on-warning --builder html --conf-dir docs . build/site
	cp docs/*.png build/site/docs/
	cp build/site/README.html build/site/index.html

$(SITE)/.ready: tools/site/requirements.txt
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --require-hashes -r tools/site/requirements.txt
	@touch $@

PIP_COMPILE := pip-compile --quiet --generate-hashes --strip-extras --no-header --no-emit-index-url \
	--no-emit-trusted-host --no-emit-find-links

lock: # Resolve the pinned packages anew (needs pip-tools)
	$(PIP_COMPILE) -o lambdas/requirements.txt lambdas/requirements.in
	$(PIP_COMPILE) --allow-unsafe -o requirements.txt requirements.in
	$(PIP_COMPILE) --allow-unsafe -c requirements.txt -o sandbox/requirements.txt sandbox/requirements.in
	$(PIP_COMPILE) -o tools/node/requirements.txt tools/node/requirements.in
	$(PIP_COMPILE) --allow-unsafe -o tools/scan/requirements.txt tools/scan/requirements.in
	$(PIP_COMPILE) --allow-unsafe -o tools/site/requirements.txt tools/site/requirements.in
	npm install --package-lock-only

clean: ## Remove everything that was installed or built
	rm -rf .venv node_modules build cdk.out
