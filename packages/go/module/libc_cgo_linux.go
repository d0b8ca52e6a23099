//go:build cgo && linux

package oneflush

/*
#define _GNU_SOURCE
#include <link.h>
#include <string.h>

enum { LIBC_NONE, LIBC_GNU, LIBC_MUSL };

static int oneflush_visit(struct dl_phdr_info *object, size_t size, void *found) {
    const char *name = object->dlpi_name ? object->dlpi_name : "";
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    (void)size;
    if (strncmp(base, "ld-musl-", 8) == 0 || strncmp(base, "libc.musl-", 10) == 0
        || strcmp(base, "libc.so") == 0) {
        *(int *)found = LIBC_MUSL;
        return 1;
    }
    if (strcmp(base, "libc.so.6") == 0)
        *(int *)found = LIBC_GNU;
    return 0;
}

// Which C library the dynamic linker has loaded. It asks the linker and not /proc, which a sandbox
// may lack.
static int oneflush_libc(void) {
    int found = LIBC_NONE;
    dl_iterate_phdr(oneflush_visit, &found);
    return found;
}
*/
import "C"

func libcOfProcess() libc {
	switch C.oneflush_libc() {
	case C.LIBC_GNU:
		return gnu
	case C.LIBC_MUSL:
		return musl
	default:
		return none
	}
}
