/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include "json/json.h"

#include "base/banned.h"

/* What machines branch on. Exhaustive: a new status does not compile without a word. */
static const char *code_text(dibs_status status)
{
    switch (status) {
    case DIBS_OK: return "ok";
    case DIBS_FAILURE: return "failure";
    case DIBS_INVALID: return "invalid";
    case DIBS_TAKEN: return "taken";
    case DIBS_EXHAUSTED: return "exhausted";
    case DIBS_NOT_FOUND: return "not_found";
    case DIBS_UNAVAILABLE: return "unavailable";
    case DIBS_DENIED: return "denied";
    }
    return "failure";
}

static const char *relation_text(dibs_relation relation)
{
    switch (relation) {
    case DIBS_REL_NONE: return "none";
    case DIBS_REL_SAME_NAME: return "same_name";
    case DIBS_REL_SAME_HOLDER: return "same_holder";
    case DIBS_REL_OWN_WILDCARD: return "own_wildcard";
    case DIBS_REL_OTHER_HOLDER: return "other_holder";
    case DIBS_REL_FOREIGN: return "foreign";
    }
    return "none";
}

static void json_blocker(struct json_writer *w, const dibs_blocker *blocker)
{
    char address[DIBS_ADDRESS_TEXT_MAX + 1] = "";
    char since[32];

    json_key(w, "blocker");
    json_object(w);
    json_key_string(w, "relation", relation_text(blocker->relation));
    json_key_uint(w, "port", blocker->port);
    if (blocker->proto)
        json_key_string(w, "proto", dibs_proto_text(blocker->proto));
    if (blocker->address.len) {
        dibs_address_format(&blocker->address, address);
        json_key_string(w, "address", address);
    }
    if (blocker->name[0])
        json_key_string(w, "name", blocker->name);
    if (blocker->pid)
        json_key_int(w, "pid", blocker->pid);
    json_key_uint(w, "uid", blocker->uid);
    if (blocker->command[0])
        json_key_string(w, "command", blocker->command);
    if (blocker->since_ms > 0) {
        cli_time(blocker->since_ms, since);
        json_key_string(w, "since", since);
    }
    json_end_object(w);
}

void report_error(const struct cli *cli, int exit_code, const dibs_err *err)
{
    char shown[DIBS_ERR_MSG_MAX];
    char one_line[DIBS_ERR_MSG_MAX];
    struct json_writer w;

    if (!cli->json) {
        /* The message may be a list; people still get one line. */
        (void) snprintf(one_line, sizeof one_line, "%s", err->msg);
        for (char *c = one_line; *c; c++) {
            if (*c == '\n')
                *c = ' ';
        }
        (void) fprintf(stderr, "dibs: %s\n",
                       cli_safe(one_line[0] ? one_line : dibs_status_text(err->code), shown, sizeof shown));
        return;
    }
    json_begin(&w, stderr);
    json_object(&w);
    json_key(&w, "error");
    json_object(&w);
    json_key_string(&w, "code", exit_code == CLI_EXIT_OUTPUT ? "output" : code_text(err->code));
    json_key_int(&w, "exit", exit_code);
    json_key_string(&w, "message", err->msg);
    if (err->blocker.relation != DIBS_REL_NONE)
        json_blocker(&w, &err->blocker);
    json_end_object(&w);
    json_end_object(&w);
    json_finish(&w);
}
