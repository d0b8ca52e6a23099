# One command each. Everything a command needs it builds or installs itself; `cargo` and a C compiler are all that must be
# there.
.PHONY: build demo test bench sqlite-suite lint units mutants model kills tsan clients compat guest suite-subset clean help

RELEASE := target/release
STAGES := lint build units mutants model kills tsan clients compat guest suite-subset
# Where one crate is built alone, `oneflush-trace` stands beside it: the features of what build scripts need are then those of the whole
# workspace, and SQLite is not compiled once more.
BESIDE := -p oneflush-trace
EXTENSION := $(RELEASE)/liboneflush.so

## help: this list
help:
	@sed -n 's/^## //p' Makefile

## build: target/release/oneflush, liboneflush.so and liboneflush_preload.so
build:
	cargo build --release --locked -p oneflush -p oneflush-preload
	cargo rustc --release --locked -p oneflush-vfs --features loadable --crate-type cdylib
	install -m 755 $(RELEASE)/liboneflush_vfs.so $(EXTENSION)

## demo: strategies eager and plain beside stock, then each of SQLite's journal modes, on this machine
demo: build
	mkdir -p build
	$(RELEASE)/oneflush bench --modes wal:stock,wal:plain,wal:eager -t 1,16 -n 10000 --rounds 2 --plot build/demo-strategies.svg --plot-latency build/demo-latency.svg
	$(RELEASE)/oneflush bench --plot build/demo.svg

## test: formatting, lints, unit and integration tests, broken variants, model check, deaths, races, clients, neighbours, F2FS, a part of SQLite's own suite
## (every stage runs to its end, and a table closes the run; `make test STAGES="lint units"` runs some)
test:
	@command -v python3 >/dev/null || scripts/need python3
	@scripts/stages $(STAGES)

## lint: formatting, lints as errors, and the lock files of what is no member of the workspace
lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p oneflush-vfs --features loadable -- -D warnings
	cargo clippy --locked -p oneflush-crashlab $(BESIDE) --features oneflush-crashlab/mutants --all-targets -- -D warnings
	for manifest in clients/rust-*/Cargo.toml crates/*/fuzz/Cargo.toml; do cargo fetch --quiet --locked --manifest-path $$manifest || exit 1; done

units: build
	scripts/need python3 sqlite3 xfsprogs btrfs-progs chromium fonts-dejavu-core fonts-liberation
	scripts/perfetto-ui build/perfetto-ui || true
	ONEFLUSH_BUILT=$(CURDIR)/$(RELEASE) ONEFLUSH_PERFETTO_UI=$(CURDIR)/build/perfetto-ui cargo test --locked --workspace --no-fail-fast

## mutants: broken variants of the code, each of which the crash simulator must catch
mutants:
	cargo test --locked -p oneflush-crashlab $(BESIDE) --features oneflush-crashlab/mutants --test mutants

## model: the queue of turns and the group flush in all the orders of threads that the model checker tries
model:
	cargo test --release --locked -p oneflush-vfs $(BESIDE) --lib --features oneflush-vfs/shuttle model

## kills: processes that share a log and die, are stopped or panic at each place where another could see what they do
kills:
	cargo test --locked -p oneflush-vfs $(BESIDE) --features oneflush-vfs/kill-points --test kills

## tsan: ThreadSanitizer over the tests with several threads; wants a nightly toolchain
tsan:
	scripts/tsan

clients: build
	SKIP_MISSING=1 clients/run

## compat: what else meets a live database: stock SQLite, Litestream, backups, kill -9, full disks
compat: build
	@for strategy in plain eager; do SKIP_MISSING=1 compat/run --strategy $$strategy || failed=1; done; exit $${failed:-0}

## guest: records SQLite on F2FS in a guest with another kernel, for this one may have no F2FS
guest: build
	guest/f2fs-trace

suite-subset:
	@for strategy in stock plain eager; do suite/run --subset --strategy $$strategy || failed=1; done; exit $${failed:-0}

## sqlite-suite: the whole of SQLite's own test suite on our VFS, with each strategy
sqlite-suite:
	@for strategy in stock plain eager; do suite/run --all --strategy $$strategy || failed=1; done; exit $${failed:-0}

## bench: the comparison that docs/results/ keeps
bench: build
	mkdir -p build
	$(RELEASE)/oneflush bench --rounds 5 --markdown --plot docs/results/ext4-journal-modes.svg > build/bench.md
	mv build/bench.md docs/results/ext4-journal-modes.md

## clean: removes all that the other commands made
clean:
	cargo clean
	rm -rf build
