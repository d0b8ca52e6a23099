/* no-flush PROGRAM [ARGUMENT…]: runs a program whose syncs do nothing: they say "done" and do not
 * reach the kernel's file system. Those of its children, too. For x86_64. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_NOT(number, skipped) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, skipped)
#define ANSWER(number) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (number))
#define NOTHING(number) IF_NOT(number, 1), ANSWER(0)

int main(int count, char **arguments) {
    struct sock_filter filter[] = {
        LOAD(nr),
        NOTHING(__NR_fsync),
        NOTHING(__NR_fdatasync),
        NOTHING(__NR_sync),
        NOTHING(__NR_syncfs),
        /* A write that is durable on return is refused. Who wanted it writes, and then syncs. */
        IF_NOT(__NR_pwritev2, 3),
        LOAD(args[5]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, RWF_DSYNC | RWF_SYNC, 0, 1),
        ANSWER(EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("no-flush");
        return 2;
    }
    execvp(arguments[1], arguments + 1);
    perror(arguments[1]);
    return 2;
}
