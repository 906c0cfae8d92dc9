/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_AS_INTERNAL_H
#define DIBS_HOLD_AS_INTERNAL_H
/* What the files of this part share. */
#include <netinet/in.h>
#include <seccomp.h>
#include <sys/socket.h>

#include "hold/as/as.h"

/* The calls that are reported, in any of the kernel's instruction sets. */
enum as_call {
    AS_BIND,
    AS_CONNECT,
    AS_GETSOCKNAME,
    AS_GETPEERNAME,
    AS_CALL_TCP_COUNT,
    AS_SENDTO = AS_CALL_TCP_COUNT, /* from here on only with UDP */
    AS_SENDMSG,
    AS_SENDMMSG,
    AS_RECVFROM,
    AS_RECVMSG,
    AS_RECVMMSG,
    AS_CALL_COUNT
};
extern const char *const as_call_names[AS_CALL_COUNT];

enum { AS_ARGS = 6 };

/* as_is_served() calls getsockname() of no socket with this address; the notifier returns AS_SERVED. */
#define AS_ASK ((uintptr_t) 0x64696273)
enum { AS_SERVED = 3000 };

/* One reported call. Its process waits for the answer; it may be killed meanwhile. */
struct as_request {
    struct as_tree *tree;
    uint64_t id;
    pid_t tid;
    enum as_call call;
    bool is_32bit; /* its pointers and sizes have four bytes */
    uint64_t args[AS_ARGS];
};

/* The answer: the kernel continues the call, or the call returns `value`, which is a negative errno or not.
 */
struct as_answer {
    bool continues;
    bool waits; /* there is no datagram yet: ask again when the socket has one */
    int64_t value;
};
#define AS_CONTINUE ((struct as_answer){ .continues = true })

/* ---- requests (request.c) ---- */
/* Find out which call this is. False: none of ours. */
bool as_request_from(struct as_tree *tree, const struct seccomp_notif *notif, struct as_request *out);
/* Is the process still waiting, so that its memory and descriptors were really its own? */
bool as_request_is_valid(const struct as_request *request);
/* Copy from or to the process's memory. False: not possible. */
bool as_request_read(const struct as_request *request, uint64_t from, void *to, size_t size);
bool as_request_write(const struct as_request *request, uint64_t to, const void *from, size_t size);
/* Return the process of the thread; 0: unknown. */
pid_t as_request_process(const struct as_request *request);
/* Get the socket that is the call's first argument; -1: none, or no access. The caller closes it. */
int as_request_socket(const struct as_request *request);

/* ---- addresses (address.c) ---- */
struct as_address {
    socklen_t size;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage space;
    };
};
/* Read the address argument; false: it is not one with a port. */
bool as_address_read(const struct as_request *request, uint64_t at, uint64_t size, struct as_address *out);
/* Check the form; public for tests and fuzzing. */
bool as_address_has_port(const struct as_address *address);
uint16_t as_address_port(const struct as_address *address);
void as_address_set_port(struct as_address *address, uint16_t port);
/* Is it this host's: loopback, a wildcard, or an address of an interface? */
bool as_address_is_local(const struct as_address *address);
/* Return the protocol of a socket of this network namespace; 0: another kind, or another namespace. */
dibs_proto as_socket_proto(int fd);

/* ---- numbers (number.c) ---- */
const struct as_number *as_number_inside(const struct as_tree *tree, dibs_proto proto, uint16_t port);
const struct as_number *as_number_outside(const struct as_tree *tree, dibs_proto proto, uint16_t port);
/* Find or claim the port for a number that the process binds. NULL: *code is a negative errno. */
const struct as_number *as_number_bound(const struct as_request *request, dibs_proto proto, uint16_t port,
                                        int *code);
/* Is the port an inside number of any protocol? */
bool as_number_is_inside(const struct as_tree *tree, uint16_t port);

/* ---- the calls (call.c) ---- */
struct as_answer as_call_answer(const struct as_request *request);
/* (datagram.c) */
struct as_answer as_datagram_send(const struct as_request *request);
struct as_answer as_datagram_receive(const struct as_request *request);

/* ---- calls that wait for a datagram (waiting.c) ---- */
enum {
    AS_WAITING_MAX = 256, /* threads that wait at once; calls of more see the port outside */
    AS_WAITING_LOOK_MS =
        50, /* a signal does not interrupt a call that the notifier has received: look for it */
};
struct as_waiting {
    struct as_request request;
    int fd;              /* the socket; -1: not used */
    int64_t deadline_ms; /* of SO_RCVTIMEO; INT64_MAX: none */
    int n_looks;         /* so often in turn a signal was pending that may be for this thread */
};
/* Begin to wait. False: not possible. */
bool as_waiting_begin(struct as_waiting *waiting, const struct as_request *request);
/* Must the call end before there is a datagram? Then *answer says how. */
bool as_waiting_ends(struct as_waiting *waiting, struct as_answer *answer);
#endif
