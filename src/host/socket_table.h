/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_SOCKET_TABLE_H
#define DIBS_HOST_SOCKET_TABLE_H
/* All sockets of a protocol in our network namespace, with their processes, as they were at one time. */
#include "host/kernel.h"
#include "host/process.h"

/* A socket on each port; more are connections of a busy server, or addresses of one. */
enum { SOCKET_TABLE_MAX = 65536 };

struct table_process {
    struct process_facts facts;
    struct process_details details; /* of owners alone */
    bool is_owner;
};

struct table_socket {
    struct kernel_socket socket;
    pid_t pid;        /* the owner; 0: unknown, or the socket is connected */
    bool is_searched; /* its owner was looked for: it was not too young */
};

struct socket_table { /* start with zeros */
    dibs_proto proto;
    struct table_socket *sockets; /* ascending by port */
    size_t n, max;
    struct table_process *processes; /* owners and their ancestors, ascending by pid */
    size_t n_processes, max_processes;
    bool is_cut;             /* there were more sockets */
    bool shows_processes;    /* we may look at every process */
    int64_t taken_ms;        /* CLOCK_MONOTONIC */
    int64_t searched_all_ms; /* when it was taken without the help of an earlier one */
};

/* A process with a claim of its own. */
struct table_holder {
    uint16_t port;
    pid_t pid;
};

struct socket_look {
    const struct process_view *view;
    dibs_proto proto;
    const struct table_holder *holders; /* see struct kernel_suspects */
    size_t n_holders;
    const struct socket_table *before;  /* an earlier table, whose owners need no search; NULL: none */
    struct kernel_inventory *inventory; /* of the caller, for the next look */
};

/* Take a table. It may sleep for some milliseconds, and reads much of /proc: not for a server's loop. A
 * connected socket is listed only for a port without other sockets, once for each user. */
dibs_status socket_table_take(const struct socket_look *look, struct socket_table *out, dibs_err *err);
void socket_table_done(struct socket_table *table);

/* Return a process of the table, or NULL. */
const struct table_process *socket_table_process(const struct socket_table *table, pid_t pid);
/* Is `pid` the process `ancestor` or a descendant of it, as far as the table knows? */
bool socket_table_descends(const struct socket_table *table, pid_t pid, pid_t ancestor);
#endif
