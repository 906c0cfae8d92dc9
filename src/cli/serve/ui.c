/* SPDX-License-Identifier: MIT */
/* `dibs ui`: the address of the daemon's dashboard, or a dashboard of its own. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/serve/serve.h"
#include "daemon/serve.h"
#include "daemon/ui/ask.h"

#include "base/banned.h"

/* Longer than a browser needs to start again with its pages; a forgotten server does not stay for the day. */
#define IDLE_DEFAULT_MS 300000

/* Is there a person who looks at this, on a desktop? */
static bool has_desktop(const struct cli *cli)
{
    const char *x11 = getenv("DISPLAY");
    const char *wayland = getenv("WAYLAND_DISPLAY");

    return !cli_has(cli, "no-open") && !cli->json && isatty(STDOUT_FILENO) &&
           ((x11 && x11[0]) || (wayland && wayland[0]));
}

/* Execute the desktop's opener, if there is one. It must not get our terminal, nor our signal mask. */
static void exec_opener(const char *url)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    for (int fd = 0; fd <= 2 && nowhere >= 0; fd++)
        (void) dup2(nowhere, fd);
    (void) sigemptyset(&none);
    (void) sigprocmask(SIG_SETMASK, &none, NULL);
    (void) signal(SIGPIPE, SIG_DFL);
    (void) execlp("xdg-open", "xdg-open", url, (char *) NULL);
}

/* Open the browser, as nobody's child: its end is not ours to wait for. */
static void open_browser(const char *url)
{
    pid_t child = fork();

    if (child == 0) {
        if (setsid() >= 0 && fork() == 0)
            exec_opener(url);
        _exit(0);
    }
    if (child > 0)
        (void) waitpid(child, NULL, 0);
}

static dibs_status show(struct cli *cli, const char *url, int64_t expires_ms, bool is_served, dibs_err *err)
{
    struct jsonw *w = &cli->w;

    if (cli->json) {
        jsonw_object(w);
        jsonw_key_string(w, "url", url);
        jsonw_key_int(w, "expires_ms", expires_ms);
        jsonw_key_string(w, "kind", is_served ? "daemon" : "short-lived");
        jsonw_end_object(w);
    } else {
        (void) printf("%s\n", url);
    }
    dibs_status s = cli_flush(cli, err);
    if (s == DIBS_OK && has_desktop(cli))
        open_browser(url);
    return s;
}

static dibs_status opened(void *ctx, const char *url, int64_t expires_ms, dibs_err *err)
{
    struct cli *cli = ctx;
    dibs_status s = show(cli, url, expires_ms, false, err);

    if (s == DIBS_OK && isatty(STDERR_FILENO))
        cli_note(cli, "there is no daemon: this server ends with Ctrl-C, or after the last page");
    return s;
}

dibs_status serve_ui(struct cli *cli, dibs_err *err)
{
    const char *idle = cli_value(cli, "idle");
    struct serve_page page = { .idle_ms = IDLE_DEFAULT_MS, .opened = opened };
    const struct serve_options options = { .load = serve_load, .ctx = cli, .page = &page };
    struct ui_answer answer;
    bool is_served = false;
    dibs_status s = idle ? dibs_duration_parse(idle, &page.idle_ms, err) : DIBS_OK;

    if (s != DIBS_OK)
        return err_wrap(err, s, "--idle");
    s = ui_ask(&cli->settings, &is_served, &answer, err);
    if (s != DIBS_OK)
        return s;
    return is_served ? show(cli, answer.url, answer.expires_ms, true, err) : serve_run(&options, err);
}
