# One command each. Everything a command needs it builds or installs itself; `cargo` is all that must be there.
.PHONY: build demo test bench sqlite-suite lint clean

RELEASE := target/release
EXTENSION := $(RELEASE)/liboneflush.so

## build: target/release/oneflush, liboneflush.so and liboneflush_preload.so
build:
	cargo build --release -p oneflush -p oneflush-preload
	cargo rustc --release -p oneflush-vfs --features loadable --crate-type cdylib
	install -m 755 $(RELEASE)/liboneflush_vfs.so $(EXTENSION)
