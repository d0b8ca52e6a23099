# Builds testfixture in the directory of a configured SQLite: one object a file, so that make can use
# all cores and another VFS costs only a link. Flags and sources are those of SQLite's own Makefile,
# plus the hook that every sqlite3_initialize() calls at its end.
#
#   make -f testfixture.mk HOOK="libraries or objects with oneflush_vfs_extra_init" OUT=testfixture
#
# With LSMVBT, the crate, SQLite is the one with two B-trees. HOOK is the engine's library then, and
# GENERATOR where the crate's program for the amalgamation is put.
#
# With SYNCS=1, SQLite's syncs reach the file system.

THIS := $(lastword $(MAKEFILE_LIST))
include Makefile
.DEFAULT_GOAL = $(OUT)

FLAGS = -DSQLITE_NO_SYNC=1 $(TEMP_STORE) $(TESTFIXTURE_FLAGS) \
        -DSQLITE_EXTRA_INIT=oneflush_vfs_extra_init
OBJECTS = $(addprefix objects/,$(notdir $(TESTFIXTURE_SRC:.c=.o)))
ifdef LSMVBT
OBJECTS := $(subst objects/sqlite3.o,objects/engines.o,$(OBJECTS))
endif
ifdef SYNCS
OBJECTS := $(subst objects/sqlite3.o,objects/syncs.o,$(OBJECTS))
endif
vpath %.c $(sort $(dir $(TESTFIXTURE_SRC)))

$(OUT): $(OBJECTS) $(HOOK)
	$(CC) $(CFLAGS) -o $@ $^ $(LIBTCL) $(TLIBS) -lpthread -ldl -lm

# The VFS that simulates crashes keeps SQLite's syncs to itself, and what lies below would never know what is to be durable.
objects/test6.o: test6.c $(THIS) | sqlite3.c
	@mkdir -p objects
	sed 's/^  return writeListSync(pCrash, isCrash);/  int rc = writeListSync(pCrash, isCrash);\
	  return rc ? rc : sqlite3OsSync(pCrash->pRealFile, flags);/' $< > objects/test6.c
	grep -q sqlite3OsSync objects/test6.c
	$(TCC) $(FLAGS) -c -o $@ objects/test6.c

objects/%.o: %.c | sqlite3.c
	@mkdir -p objects
	$(TCC) $(FLAGS) -c -o $@ $<

# ctime.test counts the compile-time options that SQLite lists; the hook must not be one more.
objects/sqlite3.o: sqlite3.c
	@mkdir -p objects
	sed '/"EXTRA_INIT="/d' $< > objects/sqlite3.c
	$(TCC) $(FLAGS) -c -o $@ objects/sqlite3.c

objects/syncs.o: sqlite3.c
	@mkdir -p objects
	sed '/"EXTRA_INIT="/d' $< > objects/syncs.c
	$(TCC) $(filter-out -DSQLITE_NO_SYNC=1,$(FLAGS)) -c -o $@ objects/syncs.c

$(GENERATOR): $(LSMVBT)/examples/generate.rs $(LSMVBT)/src/generate.rs
	rustc --edition 2024 -o $@ $<

# The library with two B-trees. It gets no hook: LS-MVBT is no VFS.
objects/engines.o: sqlite3.c $(GENERATOR) $(wildcard $(LSMVBT)/shim/* $(LSMVBT)/../mvbt-c/include/*)
	@mkdir -p objects
	$(GENERATOR) $< objects/engines.c
	$(TCC) -DSQLITE_NO_SYNC=1 $(TEMP_STORE) $(TESTFIXTURE_FLAGS) -I$(LSMVBT)/shim \
		-I$(LSMVBT)/../mvbt-c/include -c -o $@ objects/engines.c
