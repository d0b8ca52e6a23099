# One command each. Everything a command needs it builds or installs itself; `cargo` and a C compiler are all that must be
# there.
.PHONY: build demo test bench sqlite-suite lint units model tsan clients compat suite-subset clean help

RELEASE := target/release
EXTENSION := $(RELEASE)/liboneflush.so

## help: this list
help:
	@sed -n 's/^## //p' Makefile

## build: target/release/oneflush, liboneflush.so and liboneflush_preload.so
build:
	cargo build --release --locked -p oneflush -p oneflush-preload
	cargo rustc --release --locked -p oneflush-vfs --features loadable --crate-type cdylib
	install -m 755 $(RELEASE)/liboneflush_vfs.so $(EXTENSION)

## demo: strategy plain beside stock, then each of SQLite's journal modes, on this machine
demo: build
	mkdir -p build
	$(RELEASE)/oneflush bench --modes wal:stock,wal:plain -t 1,16 -n 10000 --rounds 2 --plot-latency build/demo-latency.svg
	$(RELEASE)/oneflush bench --plot build/demo.svg

## test: formatting, lints, unit and integration tests, model check, races, clients, neighbours, a part of SQLite's own suite
test: lint build units model tsan clients compat suite-subset

## lint: formatting and lints as errors
lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p oneflush-vfs --features loadable -- -D warnings

units: build
	scripts/need sqlite3 xfsprogs btrfs-progs
	ONEFLUSH_BUILT=$(CURDIR)/$(RELEASE) cargo test --locked --workspace

## model: the queue of turns and the group flush in all the orders of threads that the model checker tries
model:
	cargo test --release --locked -p oneflush-vfs --lib --features shuttle model

## tsan: ThreadSanitizer over the tests with several threads; wants a nightly toolchain
tsan:
	scripts/tsan

clients: build
	clients/run

## compat: what else meets a live database: stock SQLite, Litestream, backups, kill -9, full disks
compat: build
	compat/run

suite-subset:
	suite/run --subset --strategy stock
	suite/run --subset --strategy plain

## sqlite-suite: the whole of SQLite's own test suite on our VFS, with each strategy
sqlite-suite:
	suite/run --all --strategy stock
	suite/run --all --strategy plain

## bench: the comparison that docs/results/ keeps
bench: build
	mkdir -p build
	$(RELEASE)/oneflush bench --rounds 5 --markdown --plot docs/results/ext4-journal-modes.svg > build/bench.md
	mv build/bench.md docs/results/ext4-journal-modes.md

## clean: removes all that the other commands made
clean:
	cargo clean
	rm -rf build
