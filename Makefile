# One command each. Everything a command needs it builds or installs itself; `cargo` and a C compiler are all that must be
# there.
.PHONY: build sqlite-lsmvbt oneflush-sqlite3 engines packages bare all-bare package-tests demo check test everything bench sqlite-suite lint targets deny units unit mutants model kills tsan clients all-clients compat files files-turn guest all-guests aarch64 fleet suite-subset book clean help

# Where rustup cannot get the toolchain of rust-toolchain.toml, as without a network, the one that it has serves.
ifneq ($(shell cargo --version >/dev/null 2>&1 || echo missing),)
OWN_TOOLCHAIN := $(firstword $(shell rustup default 2>/dev/null))
ifneq ($(OWN_TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(OWN_TOOLCHAIN)
$(info Rust: the toolchain of rust-toolchain.toml is not here; $(OWN_TOOLCHAIN) serves)
endif
endif

RELEASE := target/release
STAGES := lint build units model tsan clients compat files-turn fleet bare guest suite-subset
# Features that only tests have: broken variants and places to die at. One set for all test programs, so that nothing is compiled twice.
CHECKED := oneflush-crashlab/mutants,oneflush-mvbt/kill-points,oneflush-vfs/kill-points
# Where one crate is built alone, `oneflush-trace` stands beside it: the features of what build scripts need are then those of the whole
# workspace, and SQLite is not compiled once more.
BESIDE := -p oneflush-trace
EXTENSION := $(RELEASE)/liboneflush.so

## help: this list
help:
	@sed -n 's/^## //p' Makefile

## build: target/release/oneflush, liboneflush.so, liboneflush_preload.so and liboneflush_sqlite3.so
build: sqlite-lsmvbt
	cargo build --release --locked -p oneflush -p oneflush-preload
	cargo rustc --release --locked -p oneflush-vfs --features loadable --crate-type cdylib
	install -m 755 $(RELEASE)/liboneflush_vfs.so $(EXTENSION)

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

## packages: what is published, for four platforms, in dist (`packages/make --help`)
packages:
	packages/make

## bare: packages for this processor and glibc, each installed where neither this project nor a compiler is (a part of `test`)
bare:
	packages/bare-turn quick

## all-bare: all packages in dist, for all platforms; those for another processor in a guest
all-bare:
	packages/bare-turn dist

## package-tests: the tests of the packages for Python, Node, Ruby, Go and Java, with what is in dist; PACKAGES=quick: with what `bare` has made
package-tests:
	packages/suites $(or $(PACKAGES),dist)

## demo: strategies eager and plain and SQLite on LS-MVBT beside stock, then each of SQLite's journal modes, on this machine
demo: build
	mkdir -p build
	$(RELEASE)/oneflush bench --modes wal:stock,wal:plain,wal:eager,lsmvbt -t 1,16 -n 10000 --rounds 2 --plot build/demo-strategies.svg --plot-latency build/demo-latency.svg
	$(RELEASE)/oneflush bench --plot build/demo.svg

## check: formatting, lints, unit tests, other processors and licences, for daily work
check:
	@command -v python3 >/dev/null || scripts/need python3
	@scripts/stages lint unit targets deny

## test: formatting, lints, unit and integration tests, broken variants, deaths, model check, races, clients, neighbours, mounted directories, a fleet by Spark, F2FS, a part of SQLite's own suite
## (every stage runs to its end, and a table closes the run; `make test STAGES="lint units"` runs some)
test:
	@command -v python3 >/dev/null || scripts/need python3
	@scripts/stages $(STAGES)

## everything: the same, with the tests of the packages, the whole of SQLite's own suite and a million states of the crash simulator for each strategy
everything:
	@command -v python3 >/dev/null || scripts/need python3
	@PACKAGES=quick scripts/stages $(filter-out clients files-turn guest suite-subset,$(STAGES)) package-tests all-clients files all-guests crash-states sqlite-suite

## lint: formatting, lines of at most 100 characters, links of the pages, lints as errors, the crates' documentation, and the lock files of what is no member of the workspace
lint:
	cargo fmt --all --check
	scripts/columns
	python3 -m doctest scripts/markdown_links.py
	scripts/links
	cargo clippy --locked $(BESIDE) -p oneflush-vfs -p oneflush-blocklog -p oneflush-crashlab -- -D warnings
	cargo clippy --locked -p oneflush-vfs --features loadable -- -D warnings
	cargo clippy --locked --workspace --features $(CHECKED) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --workspace --no-deps
	for manifest in clients/rust-*/Cargo.toml crates/*/fuzz/Cargo.toml engines/Cargo.toml; do cargo fetch --quiet --locked --manifest-path $$manifest || exit 1; done

## targets: the workspace compiles for aarch64 and for a processor of 32 bits
targets:
	scripts/targets

## deny: licences, sources and known holes of the crates that are used, if cargo-deny is there
deny:
	scripts/deny

units: build
	scripts/need python3 sqlite3 xfsprogs btrfs-progs chromium fonts-dejavu-core fonts-liberation mandoc groff-base zsh fish
	scripts/perfetto-ui build/perfetto-ui || true
	ONEFLUSH_BUILT=$(CURDIR)/$(RELEASE) ONEFLUSH_PERFETTO_UI=$(CURDIR)/build/perfetto-ui cargo test --locked --workspace --features $(CHECKED) --no-fail-fast

## unit: the unit tests alone
unit:
	cargo test --locked --workspace --features $(CHECKED) --lib --no-fail-fast

## mutants: broken variants of the code, each of which the crash simulator must catch (a part of `units`)
mutants:
	cargo test --locked --workspace --features $(CHECKED) --test it mutants::

## kills: processes that share a log and die, are stopped or panic at each place where another could see what they do (a part of `units`)
kills:
	cargo test --locked --workspace --features $(CHECKED) --test it -- kills:: --skip maw_kills::
	cargo test --locked --workspace --features $(CHECKED) --test it maw_kills::

## model: the queue of turns and the group flush in all the orders of threads that the model checker tries
model:
	cargo test --release --locked -p oneflush-vfs $(BESIDE) --lib --features oneflush-vfs/shuttle model

## tsan: ThreadSanitizer over the tests with several threads; wants a nightly toolchain
tsan:
	scripts/tsan

clients: build
	SKIP_MISSING=1 clients/run

## all-clients: the same, the recipes of docs/recipes.md as they stand, and the crate with the versions of others
all-clients: build
	SKIP_MISSING=1 RUST_VERSIONS=all clients/run all

## compat: what else meets a live database: stock SQLite, Litestream, backups, kill -9, full disks
compat: build
	@for strategy in plain eager; do SKIP_MISSING=1 compat/run --strategy $$strategy || failed=1; done; SKIP_MISSING=1 compat/run --strategy maw neighbours places backup || failed=1; exit $${failed:-0}

## files: POSIX suites and real programs through `oneflush mount`, beside a plain directory; FILES=long: ten times more
files: build
	SKIP_MISSING=1 files/run

## files-turn: the quick ones of these, and a part of the others: which follows from the commit
files-turn: build
	SKIP_MISSING=1 files/run --turn

## fleet: the examples of a fleet: traces identified by Spark, its figures by Spark and DuckDB, beside the program's own
fleet: build
	SKIP_MISSING=1 examples/fleet/test

## guest: a guest with another kernel: SQLite on F2FS is recorded, strategy maw runs there, and the power of one strategy on one file system is cut
guest: build
	@for case in f2fs-trace maw-f2fs power-cut-turns; do guest/$$case || failed=1; done; exit $${failed:-0}

## all-guests: the same, and there the benchmark, clients and a part of SQLite's suite on F2FS; power cuts of all strategies on all file systems
all-guests: build
	@for case in f2fs-trace maw-f2fs bench f2fs-clients "f2fs-suite --tests 20000" "power-cut-turns --all --states 600"; do guest/$$case || failed=1; done; exit $${failed:-0}

## aarch64: what build/platforms has for aarch64, on Debian's arm64 in a guest: commits and deaths, unit tests, crash states (an hour or more)
aarch64:
	guest/aarch64

## suite-subset: a part of SQLite's own test suite; which strategy gets all of it follows from the commit; and the shell with both B-trees
suite-subset:
	suite/turns
	$(MAKE) --no-print-directory oneflush-sqlite3

## crash-states: a million states that a loss of power can leave, for each strategy, for the second B-tree and for mounted directories
crash-states: build
	mkdir -p build
	@for strategy in plain eager waldio maw; do $(RELEASE)/oneflush crash --strategy $$strategy --states 1000000 --out build || failed=1; done; \
		for engine in lsmvbt mvbt eagerfs; do $(RELEASE)/oneflush crash --engine $$engine --states 1000000 --out build || failed=1; done; exit $${failed:-0}

## sqlite-suite: the whole of SQLite's own test suite on our VFS, with each strategy; the subset through `oneflush mount`
sqlite-suite:
	@for strategy in stock plain eager waldio maw; do suite/run --all --strategy $$strategy || failed=1; done; \
		suite/run --subset --mounted || failed=1; exit $${failed:-0}

## bench: the comparison that docs/results/ keeps
bench: build
	mkdir -p build
	$(RELEASE)/oneflush bench --rounds 5 --markdown --plot docs/results/ext4-journal-modes.svg > build/bench.md
	mv build/bench.md docs/results/ext4-journal-modes.md

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
