/* The hook that testfixture.mk compiles in, for a run on SQLite's own default VFS. */
int oneflush_vfs_extra_init(const char *unused){ (void)unused; return 0; }
