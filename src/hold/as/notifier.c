/* SPDX-License-Identifier: MIT */
/* The thread that answers reported calls. It waits for nothing else: one thread serves all trees. */
#include <errno.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "hold/as/internal.h"

#include "base/banned.h"

/* Linux 6.6: the caller runs on the notifier's processor while the notifier sleeps, which halves the cost. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

enum { EVENTS_MAX = 16 };

struct as_notifier {
    pthread_t thread;
    int poll;
    struct as_tree *trees;
    size_t n;
    atomic_size_t n_living;
    struct as_waiting waiting[AS_WAITING_MAX];
    size_t n_waiting;
    struct seccomp_notif *notif; /* of the kernel's size */
    struct seccomp_notif_resp *resp;
};

static void notifier_free(struct as_notifier *self)
{
    if (!self)
        return;
    for (size_t i = 0; i < self->n; i++)
        fd_auto(&self->trees[i].listener);
    for (size_t i = 0; i < AS_WAITING_MAX; i++)
        fd_auto(&self->waiting[i].fd);
    fd_auto(&self->poll);
    seccomp_notify_free(self->notif, self->resp);
    free(self);
}
DEFINE_AUTO(struct as_notifier, notifier_free)

static void answer_call(struct as_notifier *self, const struct as_tree *tree, uint64_t id,
                        const struct as_answer *answer)
{
    *self->resp = (struct seccomp_notif_resp){ .id = id };
    if (answer->continues)
        self->resp->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (answer->value < 0)
        self->resp->error = (int) answer->value;
    else
        self->resp->val = answer->value;
    (void) ioctl(tree->listener, SECCOMP_IOCTL_NOTIF_SEND, self->resp); /* fails when it was interrupted */
}

/* Let the call wait for a datagram. False: there is no room for it. */
static bool begin_waiting(struct as_notifier *self, const struct as_request *request)
{
    size_t i = 0;

    while (i < AS_WAITING_MAX && self->waiting[i].fd >= 0)
        i++;
    if (i == AS_WAITING_MAX || !as_waiting_begin(&self->waiting[i], request))
        return false;
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = self->n + i };
    if (epoll_ctl(self->poll, EPOLL_CTL_ADD, self->waiting[i].fd, &event)) {
        fd_auto(&self->waiting[i].fd);
        return false;
    }
    self->n_waiting++;
    return true;
}

static void end_waiting(struct as_notifier *self, struct as_waiting *waiting, const struct as_answer *answer)
{
    /* The program has the socket open, too: closing it here does not end the watch. */
    (void) epoll_ctl(self->poll, EPOLL_CTL_DEL, waiting->fd, NULL);
    fd_auto(&waiting->fd);
    self->n_waiting--;
    answer_call(self, waiting->request.tree, waiting->request.id, answer);
}

/* Receive one call and answer it. */
static void serve_call(struct as_notifier *self, struct as_tree *tree)
{
    struct as_request request;
    struct as_answer answer = AS_CONTINUE;

    memset(self->notif, 0, sizeof *self->notif); /* the kernel refuses anything else */
    if (ioctl(tree->listener, SECCOMP_IOCTL_NOTIF_RECV, self->notif))
        return;
    if (as_request_from(tree, self->notif, &request))
        answer = as_call_answer(&request);
    if (answer.waits && begin_waiting(self, &request))
        return;
    if (answer.waits)
        answer = AS_CONTINUE;
    answer_call(self, tree, self->notif->id, &answer);
}

/* The socket of a waiting call has a datagram; another thread may be faster. */
static void serve_waiting(struct as_notifier *self, struct as_waiting *waiting)
{
    struct as_answer answer = AS_CONTINUE;

    if (waiting->fd < 0)
        return;
    if (as_request_is_valid(&waiting->request))
        answer = as_call_answer(&waiting->request);
    if (!answer.waits)
        end_waiting(self, waiting, &answer);
}

static void look_after_waiting(struct as_notifier *self)
{
    struct as_answer answer;

    for (size_t i = 0; i < AS_WAITING_MAX && self->n_waiting; i++)
        if (self->waiting[i].fd >= 0 && as_waiting_ends(&self->waiting[i], &answer))
            end_waiting(self, &self->waiting[i], &answer);
}

static void *serve(void *arg)
{
    struct as_notifier *self = arg;
    struct epoll_event events[EVENTS_MAX];

    while (atomic_load(&self->n_living)) {
        int n = epoll_wait(self->poll, events, EVENTS_MAX, self->n_waiting ? AS_WAITING_LOOK_MS : -1);

        for (int i = 0; i < n; i++) {
            uint64_t which = events[i].data.u64;

            if (which >= self->n) {
                serve_waiting(self, &self->waiting[which - self->n]);
            } else if (events[i].events & EPOLLIN) {
                serve_call(self, &self->trees[which]);
            } else if (events[i].events & (EPOLLHUP | EPOLLERR)) { /* its last process has ended */
                fd_auto(&self->trees[which].listener);
                atomic_fetch_sub(&self->n_living, 1);
            }
        }
        if (self->n_waiting)
            look_after_waiting(self);
    }
    return NULL;
}

static dibs_status watch(struct as_notifier *self, dibs_err *err)
{
    self->poll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < self->n; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = i };
        int listener = self->trees[i].listener;

        if (self->poll < 0 || epoll_ctl(self->poll, EPOLL_CTL_ADD, listener, &event))
            return err_os(err, DIBS_FAILURE, errno, "cannot watch the command's calls");
        (void) ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    }
    return DIBS_OK;
}

dibs_status as_notifier_start(struct as_tree *trees, size_t n, struct as_notifier **out, dibs_err *err)
{
    AUTO(notifier_free_auto) struct as_notifier *self = calloc(1, sizeof *self);
    sigset_t all;
    sigset_t before;

    if (!self)
        return err_set(err, DIBS_FAILURE, "out of memory");
    *self = (struct as_notifier){ .poll = -1, .trees = trees, .n = n };
    atomic_store(&self->n_living, n);
    for (size_t i = 0; i < AS_WAITING_MAX; i++)
        self->waiting[i].fd = -1;
    if (seccomp_notify_alloc(&self->notif, &self->resp))
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = watch(self, err);
    if (s)
        return s;
    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_BLOCK, &all, &before);
    int code = pthread_create(&self->thread, NULL, serve, self);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        return err_os(err, DIBS_FAILURE, code, "cannot start a thread");
    *out = TAKE(self);
    return DIBS_OK;
}

bool as_notifier_serves(const struct as_notifier *notifier)
{
    return atomic_load(&notifier->n_living) > 0;
}

void as_notifier_finish(struct as_notifier *notifier)
{
    if (notifier)
        (void) pthread_join(notifier->thread, NULL);
    notifier_free(notifier);
}
