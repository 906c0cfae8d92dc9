/* SPDX-License-Identifier: MIT */
#include "daemon/ui/ui.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/secret.h"
#include "base/text.h"
#include "server/listeners.h"
#include "server/log.h"

#include "base/banned.h"

/* Its last port is remembered by this name. */
#define NAME "dibs/ui"

struct ui {
    struct ui_options options;
    struct sessions *sessions;
    char file[DIBS_SETTING_VALUE_MAX + 16]; /* "": none */
    uint16_t awaited;                       /* port of the sessions that an earlier daemon left; 0: none */
    dibs_claim claim;                       /* its port is 0 until it listens */
    int64_t used_ms;                        /* of the last request of a page (CLOCK_MONOTONIC) */
};

int64_t ui_now_ms(const struct ui *ui)
{
    return core_now(ui->options.engine->core).boot_ms;
}

bool ui_is_short_lived(const struct ui *ui)
{
    return ui->options.is_short_lived;
}

uint16_t ui_port(const struct ui *ui)
{
    return ui->claim.port;
}

bool ui_is_awaited(const struct ui *ui)
{
    return ui->awaited != 0;
}

/* ---- the file of sessions ---- */

/* Find the file: beside the ledger; of a cluster's daemon where root's daemons have their sockets. */
static void find_file(const struct ui_options *options, char *out, size_t size)
{
    static const char file[] = "sqlite:";
    static const char cluster[] = "etcd:";
    const char *ledger = dibs_settings_of(options->engine->handle)->ledger;

    if (!options->is_short_lived && strncmp(ledger, file, sizeof file - 1) == 0)
        (void) snprintf(out, size, "%s-sessions", ledger + sizeof file - 1);
    else if (!options->is_short_lived && strncmp(ledger, cluster, sizeof cluster - 1) == 0)
        (void) text_copy(out, size, "/run/dibs/sessions");
}

static dibs_status load(struct ui *ui, dibs_err *err)
{
    AUTO(secret_done) struct bytes text = { 0 };

    if (!ui->file[0] || access(ui->file, F_OK) != 0)
        return DIBS_OK;
    dibs_status s = secret_read("sessions file", ui->file, SESSIONS_TEXT_MAX, &text, err);
    if (s == DIBS_OK)
        s = sessions_parse(ui->sessions, &text, ui->options.engine->core->view.boot_id, ui_now_ms(ui),
                           &ui->awaited, err);
    return s;
}

static dibs_status write_text(const char *path, const struct bytes *text, dibs_err *err)
{
    (void) unlink(path); /* of a daemon that was killed here */
    AUTO(fd_auto) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0 || text->is_lost || write(fd, text->at, text->n) != (ssize_t) text->n)
        return err_os(err, DIBS_UNAVAILABLE, fd < 0 ? errno : EIO, "writing %s", path);
    return DIBS_OK;
}

/* Replace the file. Without it the sessions end with this daemon. */
static void save(const struct ui *ui)
{
    AUTO(bytes_done) struct bytes text = { 0 };
    char path[sizeof ui->file + 4];
    dibs_err err = { 0 };

    if (!ui->file[0])
        return;
    (void) snprintf(path, sizeof path, "%s.new", ui->file);
    sessions_format(ui->sessions, ui->options.engine->core->view.boot_id, ui->claim.port, &text);
    dibs_status s = write_text(path, &text, &err);
    if (s == DIBS_OK && rename(path, ui->file) != 0)
        s = err_os(&err, DIBS_UNAVAILABLE, errno, "replacing %s", ui->file);
    if (s != DIBS_OK)
        LOG(LOG_WARNING, "pages of the dashboard will need a new address after a restart", "why", err.msg);
}

/* ---- open and close ---- */

dibs_status ui_open(const struct ui_options *options, struct ui **out, dibs_err *err)
{
    struct ui *self = calloc(1, sizeof *self);
    dibs_err trouble = { 0 };

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    self->options = *options;
    self->used_ms = clock_monotonic_ms();
    find_file(options, self->file, sizeof self->file);
    dibs_status s = sessions_new(&self->sessions, err);
    if (s != DIBS_OK) {
        free(self);
        return s;
    }
    if (load(self, &trouble) != DIBS_OK)
        LOG(LOG_WARNING, "the sessions of the dashboard cannot be read: 'dibs ui' begins new ones", "why",
            trouble.msg);
    *out = self;
    return DIBS_OK;
}

void ui_release(struct ui *ui)
{
    if (!ui || !ui->claim.port)
        return;
    (void) dibs_claim_release(ui->options.engine->handle, &(dibs_which){ .token = ui->claim.token },
                              DIBS_RELEASE_FORCE | DIBS_RELEASE_UNHOLD, NULL, NULL); /* a kept one stays */
    ui->claim.port = 0;
}

void ui_close(struct ui *ui)
{
    if (!ui)
        return;
    sessions_free(ui->sessions);
    free(ui);
}

/* ---- the port ---- */

/* Is the name that of a project, in a directory that is called like us? */
static bool is_name_of_project(const struct ui *ui)
{
    dibs_claim *claim = malloc(sizeof *claim);
    bool is_found = claim && dibs_claim_find(ui->options.engine->handle, &(dibs_which){ .name = NAME }, claim,
                                             NULL) == DIBS_OK;
    bool is_project = is_found && claim->project[0];

    free(claim);
    return is_project;
}

/* Claim the port for this process. Another server of this user may have the name: then without it. */
static dibs_status claim(struct ui *ui, dibs_mode mode, uint16_t port, dibs_claim *out, dibs_err *err)
{
    dibs_request want = { .name = is_name_of_project(ui) ? NULL : NAME,
                          .mode = mode,
                          .port = port,
                          .holder = DIBS_HELD_BY_PROCESS };
    const dibs_batch batch = { .requests = &want, .n = 1 };
    dibs_status s = dibs_claim_ports(ui->options.engine->handle, &batch, out, err);

    if (s == DIBS_TAKEN && want.name) {
        want.name = NULL;
        s = dibs_claim_ports(ui->options.engine->handle, &batch, out, err);
    }
    return s;
}

/* Claim the port again on which the dashboard listens, if its user has released it. */
static void claim_again(struct ui *ui)
{
    AUTO(free_auto) dibs_claim *got = calloc(1, sizeof *got);
    dibs_err trouble = { 0 };

    if (!got || dibs_claim_find(ui->options.engine->handle, &(dibs_which){ .token = ui->claim.token }, got,
                                NULL) != DIBS_NOT_FOUND)
        return;
    if (claim(ui, DIBS_REQUIRED, ui->claim.port, got, &trouble) == DIBS_OK)
        ui->claim = *got;
    else
        LOG(LOG_WARNING, "the port of the dashboard was released and cannot be claimed again", "why",
            trouble.msg);
}

/* Listen on one loopback address. A host without IPv6 has no ::1. */
static dibs_status listen_on(const char *address, uint16_t port, int *out, dibs_err *err)
{
    char text[32];
    dibs_err trouble = { 0 };

    (void) snprintf(text, sizeof text, "%s:%u", address, port);
    dibs_status s = socket_open_tcp(text, true, out, &trouble);
    if (s != DIBS_OK && err)
        *err = trouble;
    return s != DIBS_OK && (trouble.os_errno == EADDRNOTAVAIL || trouble.os_errno == EAFNOSUPPORT) ? DIBS_OK
                                                                                                   : s;
}

dibs_status ui_listen(struct ui *ui, int sockets[UI_SOCKETS_MAX], size_t *n, dibs_err *err)
{
    AUTO(fd_auto) int v4 = -1;
    AUTO(fd_auto) int v6 = -1;
    AUTO(free_auto) dibs_claim *got = calloc(1, sizeof *got);

    *n = 0;
    if (ui->claim.port) {
        claim_again(ui);
        return DIBS_OK;
    }
    if (!got)
        return err_set(err, DIBS_FAILURE, "out of memory");
    dibs_status s = claim(ui, ui->awaited ? DIBS_PREFERRED : DIBS_RANDOM, ui->awaited, got, err);
    if (s == DIBS_OK)
        s = listen_on("127.0.0.1", got->port, &v4, err);
    if (s == DIBS_OK)
        s = listen_on("[::1]", got->port, &v6, err);
    if (s != DIBS_OK)
        return err_wrap(err, s, "the port of the dashboard");
    ui->claim = *got;
    /* Another program may have had the port meanwhile, and with it the sessions of its pages. */
    if (ui->awaited && ui->awaited != got->port) {
        LOG(LOG_INFO, "the dashboard has a new port: 'dibs ui' opens it");
        sessions_clear(ui->sessions);
    }
    ui->awaited = 0;
    if (v4 >= 0)
        sockets[(*n)++] = fd_take(&v4);
    if (v6 >= 0)
        sockets[(*n)++] = fd_take(&v6);
    return DIBS_OK;
}

/* ---- tokens and sessions ---- */

dibs_status ui_offer(struct ui *ui, uint32_t uid, char url[UI_URL_BYTES], int64_t *expires_ms, dibs_err *err)
{
    char token[SESSIONS_SECRET_TEXT + 1];
    dibs_status s = sessions_offer(ui->sessions, uid, ui_now_ms(ui), token, err);

    if (s != DIBS_OK)
        return s;
    (void) snprintf(url, UI_URL_BYTES, "http://127.0.0.1:%u/#t=%s", ui->claim.port, token);
    *expires_ms = core_now(ui->options.engine->core).wall_ms + SESSIONS_TOKEN_MS;
    explicit_bzero(token, sizeof token);
    return DIBS_OK;
}

/* A secret can be seen by others, as in the arguments of the browser: so it works only for processes of its
 * user, and for root, which may forward connections of others. */
static bool is_allowed(uint32_t uid, uint32_t peer)
{
    return peer == uid || peer == 0;
}

dibs_status ui_begin(struct ui *ui, const char *token, uint32_t peer, char session[SESSIONS_SECRET_TEXT + 1],
                     uint32_t *uid, dibs_err *err)
{
    if (sessions_is_offered(ui->sessions, token, ui_now_ms(ui), uid) && !is_allowed(*uid, peer))
        return err_set(err, DIBS_DENIED, "this address is for uid %u, and your browser is run by uid %u",
                       *uid, peer);
    dibs_status s = sessions_begin(ui->sessions, token, ui_now_ms(ui), session, err);
    if (s == DIBS_OK)
        save(ui);
    return s;
}

dibs_status ui_find(struct ui *ui, const char *session, uint32_t peer, uint32_t *uid, int64_t *ends_ms,
                    dibs_err *err)
{
    if (!sessions_find(ui->sessions, session, ui_now_ms(ui), uid, ends_ms) || !is_allowed(*uid, peer))
        return err_set(err, DIBS_DENIED, "this session is unknown or has ended: run 'dibs ui' again");
    ui->used_ms = clock_monotonic_ms();
    return DIBS_OK;
}

dibs_status ui_prove(struct ui *ui, const char *id, const char *nonce, uint32_t peer,
                     char proof[SESSIONS_PROOF_TEXT + 1], dibs_err *err)
{
    uint32_t uid = 0;

    if (!sessions_prove(ui->sessions, id, nonce, ui_now_ms(ui), &uid, proof) || !is_allowed(uid, peer))
        return err_set(err, DIBS_NOT_FOUND, "there is no such session here: run 'dibs ui' again");
    return DIBS_OK;
}

bool ui_is_idle(struct ui *ui, int64_t idle_ms, bool has_pages)
{
    int64_t now_ms = clock_monotonic_ms();
    bool may_come =
        sessions_count(ui->sessions, ui_now_ms(ui)) > 0 || sessions_offered(ui->sessions, ui_now_ms(ui)) > 0;

    if (has_pages)
        ui->used_ms = now_ms;
    return !may_come || now_ms - ui->used_ms >= idle_ms;
}

void ui_end_session(struct ui *ui, const char *session)
{
    sessions_end(ui->sessions, session);
    save(ui);
}
