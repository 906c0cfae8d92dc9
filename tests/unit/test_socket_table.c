/* SPDX-License-Identifier: MIT */
/* Looks at real sockets of real processes; of an earlier look only the owners are taken over. */
#include "host/socket_table.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "support/child.h"
#include "support/process.h"

static struct process_view view;
static struct kernel_inventory inventory;

/* Open a listening socket on 127.0.0.1; *port 0: any. */
static int listening(uint16_t *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons(*port) };
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &at, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void take(const struct socket_table *before, struct socket_table *out)
{
    const struct socket_look look = {
        .view = &view, .proto = DIBS_TCP, .before = before, .inventory = &inventory
    };
    dibs_err err = { 0 };

    ASSERT_OK(socket_table_take(&look, out, &err), &err);
}

static const struct table_socket *find(const struct socket_table *table, uint16_t port,
                                       enum kernel_socket_state state)
{
    for (size_t i = 0; i < table->n; i++)
        if (table->sockets[i].socket.port == port && table->sockets[i].socket.state == state)
            return &table->sockets[i];
    return NULL;
}

static pid_t owner(const struct socket_table *table, uint16_t port)
{
    const struct table_socket *found = find(table, port, KERNEL_LISTENING);

    assert_non_null(found);
    return found ? found->pid : -1;
}

static void an_owner_is_there_with_its_details_and_its_ancestors(void **state)
{
    struct socket_table table = { 0 };
    uint16_t port = 0;

    (void) state;
    int fd = listening(&port);
    pid_t child = child_fork(child_idle, NULL); /* it has the socket, too: the lowest pid counts */
    take(NULL, &table);
    const struct table_process *self = socket_table_process(&table, getpid());
    assert_int_equal(owner(&table, port), getpid());
    assert_non_null(self);
    assert_true(self->is_owner);
    assert_true(strstr(self->details.arguments, "test_socket_table") != NULL);
    assert_int_equal(self->facts.ppid, getppid());
    assert_true(socket_table_descends(&table, getpid(), getpid()));
    assert_true(socket_table_descends(&table, getpid(), getppid()));
    assert_false(socket_table_descends(&table, getppid(), getpid()));
    assert_false(socket_table_descends(&table, getpid(), child));
    const struct table_process *parent = socket_table_process(&table, getppid());
    assert_true(parent && parent->details.arguments[0] == '\0'); /* of owners alone */
    for (size_t i = 1; i < table.n; i++)
        assert_true(table.sockets[i - 1].socket.port <= table.sockets[i].socket.port);
    child_end(child);
    (void) close(fd);
    socket_table_done(&table);
}

static void an_ended_owner_is_searched_again(void **state)
{
    struct socket_table first = { 0 };
    struct socket_table second = { 0 };
    struct socket_table third = { 0 };
    uint16_t port = 0;

    (void) state;
    int fd = listening(&port);
    pid_t one = child_fork(child_idle, NULL);
    pid_t two = child_fork(child_idle, NULL);
    (void) close(fd);
    take(NULL, &first);
    assert_int_equal(owner(&first, port), one < two ? one : two);
    take(&first, &second);
    assert_int_equal(owner(&second, port), owner(&first, port));
    assert_int_equal(second.searched_all_ms, first.searched_all_ms);
    child_end(one < two ? one : two);
    take(&second, &third);
    assert_int_equal(owner(&third, port), one < two ? two : one);
    child_end(one < two ? two : one);
    socket_table_done(&first);
    socket_table_done(&second);
    socket_table_done(&third);
}

static void a_new_socket_on_an_old_port_has_its_own_owner(void **state)
{
    struct socket_table first = { 0 };
    struct socket_table second = { 0 };
    uint16_t port = 0;

    (void) state;
    int fd = listening(&port);
    pid_t child = child_fork(child_idle, NULL);
    (void) close(fd);
    take(NULL, &first);
    assert_int_equal(owner(&first, port), child);
    child_end(child);
    int own = listening(&port);
    take(&first, &second);
    assert_int_equal(owner(&second, port), getpid());
    (void) close(own);
    socket_table_done(&first);
    socket_table_done(&second);
}

/* A server's connections are not listed beside it; a client's is, without an owner. */
static void connections_are_listed_once_and_only_without_a_listener(void **state)
{
    struct socket_table table = { 0 };
    struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in to = from;
    socklen_t len = sizeof from;
    uint16_t port = 0;
    int on = 1;
    size_t n = 0;

    (void) state;
    int server = listening(&port);
    AUTO(fd_auto) int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO(fd_auto) int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t second_port = 0;
    int second = listening(&second_port);
    to.sin_port = htons(port);
    assert_int_equal(setsockopt(client, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(setsockopt(other, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(client, (struct sockaddr *) &from, len), 0);
    assert_int_equal(getsockname(client, (struct sockaddr *) &from, &len), 0);
    assert_int_equal(bind(other, (struct sockaddr *) &from, len), 0);
    assert_int_equal(connect(client, (struct sockaddr *) &to, len), 0);
    to.sin_port = htons(second_port);
    assert_int_equal(connect(other, (struct sockaddr *) &to, len), 0);
    take(NULL, &table);
    assert_non_null(find(&table, port, KERNEL_LISTENING));
    assert_null(find(&table, port, KERNEL_CONNECTED));
    for (size_t i = 0; i < table.n; i++)
        n += table.sockets[i].socket.port == ntohs(from.sin_port);
    assert_int_equal(n, 1); /* of two sockets */
    const struct table_socket *connected = find(&table, ntohs(from.sin_port), KERNEL_CONNECTED);
    assert_true(connected && connected->pid == 0);
    (void) close(server);
    (void) close(second);
    socket_table_done(&table);
}

static int setup(void **state)
{
    dibs_err err = { 0 };

    (void) state;
    ASSERT_OK(process_view_load(&view, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    free(inventory.inodes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_is_there_with_its_details_and_its_ancestors),
        cmocka_unit_test(an_ended_owner_is_searched_again),
        cmocka_unit_test(a_new_socket_on_an_old_port_has_its_own_owner),
        cmocka_unit_test(connections_are_listed_once_and_only_without_a_listener),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
