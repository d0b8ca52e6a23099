//go:build !sqlite_omit_load_extension

package oneflush

const isOmitted = false
