//go:build !(cgo && linux)

package oneflush

func libcOfProcess() libc { return none }
