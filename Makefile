# One command each. Everything a command needs it builds or installs itself; `cargo` and a C compiler are all that must be
# there.
.DEFAULT_GOAL := help
.PHONY: build build-all ready demo-lsmvbt ci format built built-all two-clients neighbours compiled slow laboratory states papers sqlite-lsmvbt oneflush-sqlite3 engines wheel packages bare all-bare package-tests demo check test everything bench sqlite-suite lint targets deny units mutants model kills tsan clients all-clients compat files files-turn guest all-guests aarch64 fleet suite-subset book clean help

# Where rustup cannot get the toolchain of rust-toolchain.toml, as without a network, the one that it has serves.
ifneq ($(shell cargo --version >/dev/null 2>&1 || echo missing),)
OWN_TOOLCHAIN := $(firstword $(shell rustup default 2>/dev/null))
ifneq ($(OWN_TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(OWN_TOOLCHAIN)
$(info Rust: the toolchain of rust-toolchain.toml is not here; $(OWN_TOOLCHAIN) serves)
endif
endif

RELEASE := target/release
# What tests run: one profile and one set of features for all (`scripts/built`).
TESTED := $(CURDIR)/target/debug
STAGES := format built compiled units two-clients neighbours
EXTENSION := $(RELEASE)/liboneflush.so
# The scripts' way to what is tested.
OF_TESTED := ONEFLUSH_BUILT=$(TESTED) SKIP_MISSING=1

## help: this list
help:
	@sed -n 's/^## //p' Makefile

ready:
	@scripts/ready

## build: target/release/oneflush, liboneflush.so, liboneflush_preload.so and liboneflush_sqlite3.so
build: ready sqlite-lsmvbt
	cargo build --release --locked -p oneflush -p oneflush-preload
	cargo rustc --release --locked -p oneflush-vfs --features loadable --crate-type cdylib
	install -m 755 $(RELEASE)/liboneflush_vfs.so $(EXTENSION)

## build-all: the same with the laboratory: papers, guests, emulated devices, data sets (bench --paper, --guest, --device; identify --dataset)
build-all: build
	cargo build --release --locked -p oneflush -p oneflush-powercut --features oneflush/laboratory

## sqlite-lsmvbt: target/release/liboneflush_sqlite3.so and .a, a drop-in libsqlite3 with a second B-tree
sqlite-lsmvbt:
	cargo fetch --quiet --locked
	cargo rustc --release --locked -p oneflush-mvbt-c --crate-type staticlib
	cargo build --release --locked -p oneflush-sqlite-lsmvbt
	$(RELEASE)/oneflush-link-sqlite3 $(RELEASE)/liboneflush_mvbt_c.a $(RELEASE)

## oneflush-sqlite3: target/release/oneflush-sqlite3, SQLite's shell of Debian's source package with both B-trees, and its test
oneflush-sqlite3:
	cargo fetch --quiet --locked
	mkdir -p build/shell
	export ONEFLUSH_SQLITE_AMALGAMATION=$$(suite/amalgamation) && test -n "$$ONEFLUSH_SQLITE_AMALGAMATION" && \
		cargo rustc --release --locked -p oneflush-mvbt-c --crate-type staticlib && \
		cargo build --release --locked -p oneflush-sqlite-lsmvbt
	$(RELEASE)/oneflush-link-sqlite3 $(RELEASE)/liboneflush_mvbt_c.a build/shell
	install -m 755 build/shell/oneflush-sqlite3 $(RELEASE)/oneflush-sqlite3
	rm -rf build/shell/data && mkdir build/shell/data
	python3 crates/sqlite-lsmvbt/tests/shell.py $(RELEASE)/oneflush-sqlite3 build/shell/data

## wheel: one Python wheel for this machine, in build/wheel, and the line that installs it; two to three minutes
wheel: ready
	@packages/python/wheel

## packages: what is published, for four platforms, in dist (`packages/make --help`)
packages:
	packages/make

## bare: packages for this processor and glibc, each installed where neither this project nor a compiler is
bare:
	packages/bare-turn quick

## all-bare: all packages in dist, for all platforms; those for another processor in a guest
all-bare:
	packages/bare-turn dist

## package-tests: the tests of the packages for Python, Node, Ruby, Go and Java, with what is in dist; PACKAGES=quick: with what `bare` has made
package-tests:
	packages/suites $(or $(PACKAGES),dist)

## demo: SQLite's WAL, then plain and eager, with 16 writers and with one, on this machine; some three minutes on two processors, most of it compiling
demo: ready
	@echo "make demo compiles the program oneflush (some 2 minutes on two processors, less the"
	@echo "second time), then commits rows with SQLite alone, with plain and with eager (a minute)."
	@echo "It measures on $$([ "$$(id -u)" = 0 ] && echo "an ext4 of its own, in a file" || echo "a directory of its own; as root, on an ext4 of its own")."
	cargo build --release --locked -p oneflush
	@mkdir -p build
	$(RELEASE)/oneflush bench --modes wal:stock,wal:plain,wal:eager -t 1,16 -n 10000 --rounds 2 --json > build/demo.json
	@$(RELEASE)/oneflush bench --from build/demo.json --plot build/demo.svg
	@echo
	@$(RELEASE)/oneflush bench --from build/demo.json --format brief

## demo-lsmvbt: the same with SQLite on LS-MVBT beside them
demo-lsmvbt: ready
	cargo build --release --locked -p oneflush
	$(RELEASE)/oneflush bench --modes wal:stock,wal:eager,lsmvbt -t 1,16 -n 10000 --rounds 2

## check: formatting, lints, unit tests of what has changed, for daily work
check:
	@scripts/check

## test: formatting, unit and integration tests, broken variants, deaths, crash states, two clients, a neighbour: some ten minutes on two processors
## (every stage runs to its end, and a table closes the run; `make test STAGES="format units"` runs some)
test:
	@scripts/ready 6 || true
	@command -v python3 >/dev/null || scripts/need python3
	@scripts/stages $(STAGES)

## ci: what CI runs: the same, lints, and the turns of this commit (docs/testing.md)
ci:
	@command -v python3 >/dev/null || scripts/need python3
	@scripts/stages --seconds-max 3000 $(STAGES) lint $$(scripts/turns.py)

## everything: each stage that takes turns, all clients and packages, the whole of SQLite's own suite, a million crash states for each strategy
everything:
	@command -v python3 >/dev/null || scripts/need python3
	@RUST_VERSIONS=all PACKAGES=quick scripts/stages $(STAGES) lint built-all slow laboratory papers states model tsan all-clients compat files fleet bare package-tests \
		all-guests targets deny build crash-states sqlite-suite

## bench: the comparison that docs/results/ keeps, with what packages have: fat LTO
bench: ready
	mkdir -p build
	cargo build --profile dist --locked -p oneflush
	target/dist/oneflush bench --rounds 5 --markdown --plot docs/results/ext4-journal-modes.svg > build/bench.md
	mv build/bench.md docs/results/ext4-journal-modes.md

# ---- Stages of `make test` ----

## format: formatting, lines of at most 100 characters, links of the pages
format:
	cargo fmt --all --check
	scripts/columns
	python3 -m doctest scripts/markdown_links.py
	scripts/links

## built: what tests run, in target/debug: test programs, the program, the libraries beside it
built:
	scripts/built

## compiled: how often each crate was compiled for that, and how many programs were linked
compiled:
	scripts/compiled

## units: unit and integration tests, a process for each module (`scripts/tests --help`)
units:
	@scripts/need python3 sqlite3 strace xfsprogs btrfs-progs mandoc groff-base zsh fish || true
	ONEFLUSH_BUILT=$(TESTED) scripts/tests

## two-clients: the sqlite3 shell and Python, with the extension
two-clients:
	$(OF_TESTED) clients/run shell python-sqlite3

## neighbours: stock SQLite beside ours on one database
neighbours:
	$(OF_TESTED) compat/run --strategy plain neighbours

# ---- Stages that take turns in CI. They stand on `built-all`: a build without the laboratory would take it away from the program ----

## built-all: as `built`, with the laboratory
built-all:
	scripts/built --laboratory

## slow: tests that take longer
slow:
	@scripts/need python3 sqlite3 xfsprogs btrfs-progs chromium fonts-dejavu-core fonts-liberation || true
	scripts/perfetto-ui build/perfetto-ui || true
	ONEFLUSH_BUILT=$(TESTED) ONEFLUSH_PERFETTO_UI=$(CURDIR)/build/perfetto-ui scripts/tests --laboratory --turn slow

## laboratory: tests of data sets, emulated devices, guests' plans
laboratory:
	@scripts/need python3 sqlite3 || true
	ONEFLUSH_BUILT=$(TESTED) scripts/tests --turn laboratory

## papers: the short form of the papers' figures, and what is said of them
papers:
	@scripts/need python3 chromium fonts-dejavu-core fonts-liberation || true
	ONEFLUSH_BUILT=$(TESTED) scripts/tests --turn papers

## states: 200,000 states of the crash simulator, ten times what `units` has
states:
	ONEFLUSH_BUILT=$(TESTED) ONEFLUSH_TEST_STATES=200000 scripts/tests --laboratory -p crashlab states:: lsmvbt::no_loss mvbt::the_engine

## model: the queue of turns and the group flush in all the orders of threads that the model checker tries
model:
	cargo test --locked -p oneflush-vfs --lib --features shuttle model

## tsan: ThreadSanitizer over the tests with several threads; wants a nightly toolchain
tsan:
	scripts/tsan

## all-clients: drivers in five languages, the recipes of docs/recipes.md as they stand, the crate with a version of others, or with RUST_VERSIONS=all with each
all-clients:
	$(OF_TESTED) clients/run all

## compat: what else meets a live database: stock SQLite, Litestream, backups, kill -9, full disks
compat:
	@for strategy in plain eager; do $(OF_TESTED) compat/run --strategy $$strategy || failed=1; done; $(OF_TESTED) compat/run --strategy maw neighbours places backup || failed=1; exit $${failed:-0}

## files: POSIX suites and real programs through `oneflush mount`, beside a plain directory; FILES=long: ten times more
files:
	$(OF_TESTED) files/run

## files-turn: the quick ones of these, and a part of the others: which follows from the commit
files-turn:
	$(OF_TESTED) files/run --turn

## fleet: the examples of a fleet: traces identified by Spark, its figures by Spark and DuckDB, beside the program's own
fleet:
	$(OF_TESTED) examples/fleet/test

## guest: a guest with another kernel: SQLite on F2FS is recorded, strategy maw runs there, and the power of one strategy on one file system is cut
guest:
	@for case in f2fs-trace maw-f2fs power-cut-turns; do $(OF_TESTED) guest/$$case || failed=1; done; exit $${failed:-0}

## all-guests: the same, and there the benchmark, clients and a part of SQLite's suite on F2FS; power cuts of all strategies on all file systems
all-guests:
	@for case in f2fs-trace maw-f2fs bench f2fs-clients "f2fs-suite --tests 20000" "power-cut-turns --all --states 600"; do $(OF_TESTED) guest/$$case || failed=1; done; exit $${failed:-0}

## suite-subset: a part of SQLite's own test suite; which strategy gets all of it follows from the commit; and the shell with both B-trees
suite-subset:
	$(OF_TESTED) suite/turns
	$(MAKE) --no-print-directory oneflush-sqlite3

## lint: lints as errors, the crates' documentation, and the lock files of what is no member of the workspace
lint: format
	scripts/turns.py --check docs/testing.md
	scripts/guarantees >/dev/null
	scripts/invariants --check >/dev/null
	cargo clippy --locked -p oneflush-trace -p oneflush-vfs -p oneflush-blocklog -p oneflush-crashlab -- -D warnings
	cargo clippy --locked -p oneflush-vfs --features loadable -- -D warnings
	cargo clippy --locked -- -D warnings
	cargo clippy --locked --workspace --features $$(scripts/tests --laboratory --features) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --workspace --no-deps
	for manifest in clients/rust-*/Cargo.toml crates/*/fuzz/Cargo.toml engines/Cargo.toml; do cargo fetch --quiet --locked --manifest-path $$manifest || exit 1; done

## targets: the workspace compiles for aarch64 and for a processor of 32 bits; licences, as `deny`
targets:
	scripts/targets
	scripts/deny

## deny: licences, sources and known holes of the crates that are used, if cargo-deny is there
deny:
	scripts/deny

# ---- On demand ----

## mutants: broken variants of the code, each of which the crash simulator must catch (a part of `units`)
mutants:
	scripts/tests -p crashlab mutants::

## kills: processes that share a log and die, are stopped or panic at each place where another could see what they do (a part of `units`)
kills:
	scripts/tests -p vfs -p mvbt kills::

## aarch64: what build/platforms has for aarch64, on Debian's arm64 in a guest: commits and deaths, unit tests, crash states (an hour or more)
aarch64:
	guest/aarch64

## crash-states: a million states that a loss of power can leave, for each strategy, for the second B-tree and for mounted directories
crash-states: build
	mkdir -p build
	@for strategy in plain eager waldio maw; do $(RELEASE)/oneflush crash --strategy $$strategy --states 1000000 --out build || failed=1; done; \
		for engine in lsmvbt mvbt eagerfs; do $(RELEASE)/oneflush crash --engine $$engine --states 1000000 --out build || failed=1; done; exit $${failed:-0}

## sqlite-suite: the whole of SQLite's own test suite on our VFS, with each strategy; the subset through `oneflush mount`
sqlite-suite:
	@for strategy in stock plain eager waldio maw; do suite/run --all --strategy $$strategy || failed=1; done; \
		suite/run --subset --mounted || failed=1; exit $${failed:-0}

## engines: the multi-version B-tree beside LMDB, redb, fjall and RocksDB (ARGUMENTS: its options), in build/engines.md
engines:
	scripts/need libclang-dev librocksdb-dev
	mkdir -p build
	cd engines && ROCKSDB_LIB_DIR=/usr/lib/$$(cc -print-multiarch) cargo run --release --locked -- -o ../build/engines.md $(ARGUMENTS)

## book: the pages of docs/ as a book, in build/book
book:
	scripts/book

## clean: removes all that the other commands made
clean:
	cargo clean
	rm -rf build engines/target
