/* SPDX-License-Identifier: MIT */
/* One of many that want a port at the same moment: says "ready", waits until stdin ends, claims with dibs for
 * itself, binds HERD_LATER_MS (environment) later, listens, and says "PORT ok", "PORT taken" or "0 none".
 * Holds the port until it is ended. usage: taker DIBS RANGE */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { HOLD_SECONDS = 120 };
extern char **environ;

static long claim(char *dibs, char *range)
{
    char pid_text[16];
    char answer[64] = "";
    int fds[2] = { -1, -1 };
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;

    (void) snprintf(pid_text, sizeof pid_text, "%d", (int) getpid());
    char *argv[] = { dibs,  (char[]){ "claim" },     (char[]){ "--pid" },     pid_text, (char[]){ "--range" },
                     range, (char[]){ "--address" }, (char[]){ "127.0.0.1" }, NULL };
    if (pipe(fds) != 0 || posix_spawn_file_actions_init(&actions) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addclose(&actions, fds[0]) != 0 ||
        posix_spawn(&pid, dibs, &actions, NULL, argv, environ) != 0)
        return 0;
    (void) close(fds[1]);
    ssize_t n = read(fds[0], answer, sizeof answer - 1);
    (void) close(fds[0]);
    (void) waitpid(pid, NULL, 0);
    return n > 0 ? strtol(answer, NULL, 10) : 0;
}

static void say(long port, const char *what)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%ld %s\n", port, what);

    if (write(STDOUT_FILENO, line, (size_t) n) != n) /* one write: lines of many do not mix */
        _exit(1);
}

int main(int argc, char **argv)
{
    char byte = 0;

    if (argc != 3)
        return 2;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    long port = claim(argv[1], argv[2]);
    const char *later_ms = getenv("HERD_LATER_MS");
    (void) usleep((useconds_t) (later_ms ? strtoul(later_ms, NULL, 10) * 1000 : 0));
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    at.sin_port = htons((uint16_t) port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (port <= 0)
        say(0, "none");
    else if (fd >= 0 && bind(fd, (struct sockaddr *) &at, sizeof at) == 0 && listen(fd, 16) == 0)
        say(port, "ok");
    else
        say(port, "taken");
    (void) sleep(HOLD_SECONDS);
    return 0;
}
