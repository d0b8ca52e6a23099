// The path is a placeholder until the first release: see docs/releasing.md. It stands in this file
// and in imports; `build` reads it from here.
module github.com/oneflush/oneflush-go

go 1.21

require github.com/mattn/go-sqlite3 v1.14.52
