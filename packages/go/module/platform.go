package oneflush

import (
	"debug/elf"
	"fmt"
	"runtime"
)

// The C libraries that a process can have. What the compiler had does not tell: a program may be
// linked for one and run with another.
type libc string

const (
	none libc = ""
	gnu  libc = "gnu"
	musl libc = "musl"
)

var machines = map[string]struct {
	name    string
	machine elf.Machine
}{
	"amd64": {"x86_64", elf.EM_X86_64},
	"arm64": {"aarch64", elf.EM_AARCH64},
}

// platformOfProcess is such as x86_64-linux-gnu.
func platformOfProcess() (string, error) {
	machine, known := machines[runtime.GOARCH]
	if !known || runtime.GOOS != "linux" {
		return "", fmt.Errorf("oneflush: there is no library for %s/%s; there is one for "+
			"linux/amd64 and linux/arm64", runtime.GOOS, runtime.GOARCH)
	}
	found := libcOfProcess()
	if found == none {
		return "", fmt.Errorf("oneflush: this program is linked statically, so it cannot load a " +
			"library; build it without -extldflags=-static")
	}
	return machine.name + "-linux-" + string(found), nil
}

// checkMachine refuses a file that is no library for the processor of this process. The C library
// is not looked at: the dynamic linker says what is missing.
func checkMachine(path, platform string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("it is no ELF library: %w", err)
	}
	defer file.Close()
	wanted := machines[runtime.GOARCH]
	if file.Machine != wanted.machine || file.Class != elf.ELFCLASS64 {
		return fmt.Errorf("it is a library for %v (%v), and this program needs one for %s",
			file.Machine, file.Class, platform)
	}
	return nil
}
