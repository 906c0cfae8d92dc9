/* SPDX-License-Identifier: MIT */
/* Times whole processes: each line on stdin is a command, its words separated by tabs; the answer is
 * "NANOSECONDS EXIT-STATUS", from before the process exists until it has been waited for.
 *
 * posix_spawn does not copy our page tables, and there is no shell in between. Output goes to /dev/null. */
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { WORDS_MAX = 64 };
extern char **environ;

int main(void)
{
    char line[8192];
    posix_spawn_file_actions_t actions;

    if (posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) != 0)
        return 1;
    while (fgets(line, sizeof line, stdin)) {
        char *argv[WORDS_MAX + 1] = { 0 };
        size_t n = 0;
        char *rest = line;
        pid_t pid = 0;
        int status = 0;

        line[strcspn(line, "\n")] = '\0';
        for (char *word = NULL; n < WORDS_MAX && (word = strsep(&rest, "\t"));)
            argv[n++] = word;
        int64_t began = bench_now_ns();
        if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0 || waitpid(pid, &status, 0) != pid)
            status = -1;
        (void) printf("%" PRId64 " %d\n", bench_now_ns() - began,
                      WIFEXITED(status) ? WEXITSTATUS(status) : 255);
        (void) fflush(stdout);
    }
    (void) posix_spawn_file_actions_destroy(&actions);
    return 0;
}
