//! Oneflush's SQLite VFS.
