# One short entry for all chores; CI and a newcomer share it. Everything runs in .venv, which `make` builds itself.
PYTHON ?= python3
BIN := .venv/bin
CAPTURES ?= ../shared/captures
KILLS ?= 20
ROUNDS ?= 6
SAMPLE ?= 40
SEED ?= 1
STREAMS ?= 1000
TARGET ?= all
SECONDS ?= 60
WHEEL := $(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir build/wheels .
COMPILED := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/compiled
KUBERNETES := 1.30 1.37
LAKES := 'pyspark==4.1.*' deltalake pyiceberg
LAWS_AND_STREAMS := tests/test_laws.py tests/test_samples.py tests/streams tests/test_pipeline.py tests/test_names_that_are_no_text.py \
	tests/dissectors/kafka/test_kafka_records_walk.py tests/framing tests/batch/test_windows.py

.PHONY: fuzz lies lock audit signals differential mutants sample check test lint types walls data docs pictures notebooks wheels compiled check-compiled format truth tls-truth same-rows compressed same-windows follow-faults job-faults hdfs-runs cluster-runs kubernetes lakes bench clean

sample: .venv/ready  ## the main job on a capture of the repository
	$(BIN)/mqsniff decode pcaps/nsq/nsq-1.3.0-go-req-touch.pcap

check: test lint types walls data docs  ## everything that CI runs

.venv/ready: pyproject.toml .ci/requirements.lock
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement .ci/requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	$(BIN)/pip check
	touch $@

lock:  ## pin the dependencies anew, with hashes
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
		--generate-hashes --no-strip-extras --no-emit-index-url --no-header --quiet --output-file build/requirements.lock
	(sed -n '/^#/!q;p' .ci/requirements.lock; grep -v '^#' build/requirements.lock) > build/new.lock
	mv build/new.lock .ci/requirements.lock

audit:  ## known holes in the pinned dependencies; needs the network
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --requirement .ci/requirements.lock --require-hashes --disable-pip --strict || { \
		echo 'make audit: there is a finding, or its database could not be reached: see above' >&2; exit 1; }

signals: .venv/ready  ## end every command at random moments, and look what it leaves: make signals ROUNDS=6
	$(BIN)/python tests/signals_at_random.py $(ROUNDS)

differential: .venv/ready  ## reassembly beside tshark's, on mangled connections: make differential STREAMS=1000
	$(BIN)/python tests/streams/differential.py $(STREAMS)

fuzz: .venv/ready  ## look for inputs that break something, led by coverage: make fuzz TARGET=kafka SECONDS=7200; TARGET=all
	$(BIN)/pip install --quiet --disable-pip-version-check 'atheris>=3' || echo 'make fuzz: inputs are changed by chance' >&2
	PYTHONPATH=.:dissectors $(BIN)/python -m tests.fuzz $(TARGET) --seconds $(SECONDS)

lies: .venv/ready  ## every length field of every format says something else, in every way: ten minutes
	PYTHONPATH=.:dissectors $(BIN)/python -m tests.fuzz lies

test: .venv/ready  ## the tests, goldens of pcaps/ included
	$(BIN)/pytest
	$(BIN)/mqsniff check pcaps

mutants: .venv/ready  ## faults that no test notices: make mutants MODULE=mqsniff/framing SAMPLE=40 SEED=1
	$(BIN)/python tests/mutation/run_mutants.py $(MODULE) --sample $(SAMPLE) --seed $(SEED) $(MUTANTS)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/ready
	$(BIN)/mypy

walls: .venv/ready  ## imports go one way
	$(BIN)/lint-imports

data: .venv/ready  ## the data of dissectors/ is what proto/ says, docs/tables.md what the schemas say, the man page what the help says
	$(BIN)/python proto/build.py --check
	$(BIN)/python docs/build_tables.py --check
	$(BIN)/python docs/build_man.py --check
	$(BIN)/python docs/build_rows.py --check
	$(BIN)/python docs/build_statuses.py --check
	$(BIN)/python docs/build_metrics.py --check

docs: .venv/ready  ## the site, in build/site; a warning is an error
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs build/site

pictures: .venv/ready  ## the pictures of the README; those of the report: make pictures CAPTURES=DIR, with Chromium
	$(BIN)/python docs/build_pictures.py
	$(if $(CAPTURES),$(BIN)/python docs/build_report_pictures.py $(CAPTURES))

notebooks: .venv/ready  ## the notebooks of examples/, run in a kernel, with their results
	$(BIN)/python examples/run_notebooks.py

wheels: .venv/ready  ## a pure wheel and, with a C compiler, a compiled one for this Python, in build/wheels
	rm -rf build/wheels build/lib* build/bdist*
	MQSNIFF_COMPILE=0 $(WHEEL)
	if command -v cc > /dev/null; then $(MAKE) compiled; else echo 'no C compiler: only the pure wheel was built'; fi

compiled: .venv/ready  ## the hot modules as C extensions: a wheel in build/wheels, installed in build/compiled; needs a C compiler
	rm -rf build/wheels/*-cp3*.whl build/compiled build/lib* build/bdist*
	MQSNIFF_COMPILE=1 $(WHEEL)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target build/compiled build/wheels/*-cp3*.whl

# build/compiled holds the packages of dissectors/ too, so that folder is not on this path.
check-compiled: compiled  ## the compiled build gives the same: laws, goldens, streams, outputs
	$(COMPILED) $(BIN)/python -c 'from mqsniff import pipeline; assert not pipeline.__file__.endswith(".py")'
	$(COMPILED) $(BIN)/pytest -o pythonpath='build/compiled .' $(LAWS_AND_STREAMS)
	$(COMPILED) $(BIN)/mqsniff check pcaps
	$(BIN)/python tests/output_sums.py pcaps > build/outputs-python.txt
	$(COMPILED) $(BIN)/python tests/output_sums.py pcaps > build/outputs-compiled.txt
	diff build/outputs-python.txt build/outputs-compiled.txt

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

truth: .venv/ready  ## rows against what the clients of the captures know: make truth CAPTURES=DIR
	PYTHONPATH=. $(BIN)/python tests/truth.py $(CAPTURES)

tls-truth: .venv/ready  ## what TLS hides, ours beside tshark's with the same keys: make tls-truth CAPTURES=DIR
	PYTHONPATH=. $(BIN)/python tests/truth_tls.py $(CAPTURES)

same-rows: .venv/ready  ## rows of decode against those of batch, capture by capture: make same-rows CAPTURES=DIR
	PYTHONPATH=.:tests $(BIN)/python tests/batch/same_rows.py $(CAPTURES)

compressed: .venv/ready  ## rows of captures against those of the same, compressed: make compressed CAPTURES=DIR
	PYTHONPATH=.:tests/batch:tests $(BIN)/python tests/compressed_rows.py $(CAPTURES)

hdfs-runs: .venv/ready  ## a batch job whose captures and tables are on HDFS; needs a JDK, and Maven to fetch Hadoop
	PYTHONPATH=$(CURDIR):$(CURDIR)/dissectors:$(CURDIR)/tests $(BIN)/python tests/batch/hdfs_runs.py

cluster-runs: .venv/ready  ## batch jobs on Spark's own cluster and on YARN; needs a JDK, and Maven to fetch Hadoop
	test -d build/cluster || $(PYTHON) -m venv build/cluster
	rm -rf build/wheels/*-none-any.whl build/lib* build/bdist*
	MQSNIFF_COMPILE=0 $(WHEEL)
	build/cluster/bin/pip install --quiet --disable-pip-version-check venv-pack pandas fsspec requests build/wheels/*-none-any.whl
	build/cluster/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheels/*-none-any.whl
	build/cluster/bin/venv-pack --quiet --force --compress-level 1 --prefix build/cluster --output build/cluster.tar.gz
	PYTHONPATH=$(CURDIR):$(CURDIR)/dissectors:$(CURDIR)/tests $(BIN)/python tests/batch/cluster_runs.py build/cluster.tar.gz

kubernetes:  ## examples/kubernetes against the schemas of Kubernetes, which a package of 22 MB has
	test -d build/kubernetes || $(PYTHON) -m venv build/kubernetes
	build/kubernetes/bin/pip install --quiet --disable-pip-version-check kubernetes-validate
	for version in $(KUBERNETES); do build/kubernetes/bin/kubernetes-validate --strict --kubernetes-version $$version \
		$(filter-out %/kustomization.yaml,$(wildcard examples/kubernetes/*.yaml)) || exit 1; done

lakes: .venv/ready  ## publish runs to tables of Delta and Iceberg; needs Java, and fetches Spark 4.1 and, with Maven, jars
	test -d build/lakes || $(BIN)/pip install --quiet --disable-pip-version-check --target build/lakes $(LAKES)
	PYTHONPATH=$(CURDIR)/build/lakes:$(CURDIR):$(CURDIR)/dissectors:$(CURDIR)/tests $(BIN)/python tests/batch/lake_runs.py

same-windows: .venv/ready  ## rows of runs that carry open connections against those of one run: make same-windows CAPTURES=DIR
	PYTHONPATH=.:tests $(BIN)/python tests/batch/same_windows.py $(CAPTURES)

follow-faults: .venv/ready  ## kill `batch --follow` at random moments, and compare its rows with those of one run; needs Java
	PYTHONPATH=.:tests $(BIN)/python tests/batch/follow_faults.py

job-faults: .venv/ready  ## kill workers, executors and drivers of batch jobs, change inputs, fill disks: make job-faults KILLS=20; needs Java
	PYTHONPATH=.:tests $(BIN)/python tests/batch/job_faults.py $(FAULTS) --kills $(KILLS) --seed $(SEED)

bench: .venv/ready  ## speed and memory; needs tshark for the comparison
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
