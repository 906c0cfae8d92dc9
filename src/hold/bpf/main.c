/* SPDX-License-Identifier: MIT */
/* dibs-bpf: load the kernel's programs, attach them, and pass map and links to the daemon. It ends at once,
 * so that the daemon itself carries no libbpf. The attachments live as long as the daemon's descriptors, or
 * as long as their pins.
 *
 * usage: dibs-bpf CGROUP pin|unpin|ignore      CGROUP: root of the cgroup v2 hierarchy; pin...: what to do
 * with pins; file descriptor 3 is a socket to the daemon */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "hold/bpf/hand_over.h"
#include "hold/bpf/ports_map.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* generated code */
#pragma GCC diagnostic ignored "-Wcast-qual"
#include <numbers.skel.h> /* generated */
#include <ports.skel.h>
#pragma GCC diagnostic pop

#include "base/banned.h"

static char first_warning[256];

static int keep_warning(enum libbpf_print_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Keep libbpf's first warning: it says more than its error number, and the others follow from it. */
static int keep_warning(enum libbpf_print_level level, const char *format, va_list args)
{
    if (level == LIBBPF_WARN && !first_warning[0])
        (void) vsnprintf(first_warning, sizeof first_warning, format, args);
    return 0;
}

static int reply(const int *fds, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Send the descriptors, or the reason why there are none. Returns the exit code. */
static int reply(const int *fds, const char *fmt, ...)
{
    char text[HAND_OVER_TEXT_MAX] = "";
    union {
        char bytes[CMSG_SPACE(HAND_OVER_FDS * sizeof *fds)];
        struct cmsghdr align;
    } control = { .bytes = { 0 } };
    struct iovec part = { text, sizeof text };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (fds) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);

        *head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                  .cmsg_type = SCM_RIGHTS,
                                  .cmsg_len = CMSG_LEN(HAND_OVER_FDS * sizeof *fds) };
        memcpy(CMSG_DATA(head), fds, HAND_OVER_FDS * sizeof *fds);
    }
    bool is_sent = sendmsg(HAND_OVER_FD, &message, MSG_NOSIGNAL) == (ssize_t) sizeof text;
    return is_sent && fds ? 0 : 1;
}

enum pinning { PIN, UNPIN, IGNORE };

static void pin_path(char *out, size_t size, const char *name)
{
    (void) snprintf(out, size, "%s/%s", HAND_OVER_PINS, name);
}

/* Attach a program. With pins an earlier attachment is replaced in one step, so that no bind passes between;
 * without, one that an earlier daemon has pinned ends after ours exists. */
static struct bpf_link *attach(struct bpf_program *program, int cgroup, enum pinning pinning)
{
    char path[256];

    pin_path(path, sizeof path, bpf_program__name(program));
    struct bpf_link *was = pinning == IGNORE ? NULL : bpf_link__open(path);
    if (was && pinning == PIN && bpf_link__update_program(was, program) == 0)
        return was;
    struct bpf_link *link = bpf_program__attach_cgroup(program, cgroup);
    if (was)
        (void) unlink(path);
    if (was && bpf_link__destroy(was) != 0)
        return NULL;
    if (link && pinning == PIN && bpf_link__pin(link, path) != 0)
        return NULL;
    return link;
}

/* Keep a map at its path. One that is there already is used again, if it is of the same kind. */
static bool keep(struct bpf_map *map, enum pinning pinning, bool is_again)
{
    char path[256];

    pin_path(path, sizeof path, bpf_map__name(map));
    if (pinning == UNPIN || (pinning == PIN && is_again))
        (void) unlink(path);
    return pinning != PIN || bpf_map__set_pin_path(map, path) == 0;
}

/* Is the array new, or has it the ports of this network namespace? Element 0 says so. */
static bool is_of_netns(const struct bpf_map *own, uint64_t netns)
{
    struct ports_owner first = { 0 };
    uint32_t index = 0;

    if (bpf_map_lookup_elem(bpf_map__fd(own), &index, &first) != 0 || (first.claim && first.claim != netns))
        return false;
    first.claim = netns;
    return bpf_map_update_elem(bpf_map__fd(own), &index, &first, BPF_ANY) == 0;
}

/* Load the programs. Pinned maps of another version, or of another network namespace, are replaced. */
static struct ports_bpf *load(enum pinning pinning, uint64_t netns)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        struct ports_bpf *ports = ports_bpf__open();

        if (!ports || !keep(ports->maps.claimed, pinning, attempt > 0) ||
            !keep(ports->maps.own, pinning, attempt > 0))
            return NULL;
        ports->rodata->own_netns = netns;
        if (ports_bpf__load(ports) == 0 && is_of_netns(ports->maps.own, netns))
            return ports;
        ports_bpf__destroy(ports);
    }
    return NULL;
}

/* Load the programs of dibs run --as, which the daemon attaches to the cgroups of commands. */
static bool load_numbers(int *fds)
{
    const struct numbers_bpf *numbers = numbers_bpf__open_and_load();
    int i = HAND_OVER_AS;

    if (!numbers)
        return false;
    fds[HAND_OVER_NUMBERS] = bpf_map__fd(numbers->maps.numbers);
#define ADD(name, type) fds[i++] = bpf_program__fd(numbers->progs.name);
    HAND_OVER_AS_MAP(ADD)
#undef ADD
    return true;
}

static int reply_refused(void)
{
    if (errno == EPERM)
        return reply(NULL, "only root of the host may load programs into the kernel (CAP_BPF, CAP_NET_ADMIN "
                           "and CAP_PERFMON)");
    return reply(NULL, "the kernel does not accept the programs: %s%s%s", strerror(errno),
                 first_warning[0] ? ": " : "", first_warning);
}

int main(int argc, char **argv)
{
    int fds[HAND_OVER_FDS] = { 0 };
    uint64_t netns = 0; /* the daemon's, and ours */
    socklen_t size = sizeof netns;

    if (argc != 3) {
        (void) fprintf(stderr, "dibs-bpf: the daemon starts this program (dibs serve --enforce)\n");
        return 2;
    }
    enum pinning pinning = strcmp(argv[2], HAND_OVER_PIN) == 0     ? PIN
                           : strcmp(argv[2], HAND_OVER_UNPIN) == 0 ? UNPIN
                                                                   : IGNORE;
    libbpf_set_print(keep_warning);
    int cgroup = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (cgroup < 0)
        return reply(NULL, "cannot open the cgroup %s: %s", argv[1], strerror(errno));
    if (getsockopt(HAND_OVER_FD, SOL_SOCKET, SO_NETNS_COOKIE, &netns, &size) != 0)
        return reply(NULL, "this kernel does not number network namespaces: %s", strerror(errno));
    struct ports_bpf *ports = load(pinning, netns);
    if (!ports)
        return reply_refused();
    if (!load_numbers(fds))
        return reply_refused();
    fds[HAND_OVER_CLAIMED] = bpf_map__fd(ports->maps.claimed);
    fds[HAND_OVER_OWN] = bpf_map__fd(ports->maps.own);
    fds[HAND_OVER_EXEMPT] = bpf_map__fd(ports->maps.exempt);
    ports->links.bind4 = attach(ports->progs.bind4, cgroup, pinning);
    ports->links.bind6 = ports->links.bind4 ? attach(ports->progs.bind6, cgroup, pinning) : NULL;
    if (!ports->links.bind6)
        return reply(NULL, "cannot attach the programs to the cgroup %s: %s", argv[1], strerror(errno));
    fds[HAND_OVER_BIND4] = bpf_link__fd(ports->links.bind4);
    fds[HAND_OVER_BIND6] = bpf_link__fd(ports->links.bind6);
    return reply(fds, "%s", "");
}
