/* SPDX-License-Identifier: MIT */
#ifndef DIBS_CLI_JSON_CLAIM_H
#define DIBS_CLI_JSON_CLAIM_H
/* What --json prints of the library's values. One place, so that every command says a claim the
 * same way, and a full snapshot is a list of what `dibs ls --json` shows. */
#include "dibs/dibs.h"
#include "json/json.h"

void cli_json_claim(struct json_writer *w, const dibs_claim *claim);
/* The members without the braces, for a command that adds some of its own. */
void cli_json_claim_members(struct json_writer *w, const dibs_claim *claim);
void cli_json_event(struct json_writer *w, const dibs_event *event);
void cli_json_socket_members(struct json_writer *w, const dibs_socket *socket);
/* `usage` may be NULL. */
void cli_json_pool(struct json_writer *w, const dibs_pool *pool, const dibs_pool_usage *usage);

/* Words that stand in tables, JSON and snapshots alike. */
const char *cli_life_text(dibs_life life);
const char *cli_scope_text(dibs_scope scope);
/* "auto", "off" or the number. */
void cli_band_text(int32_t band, char out[16]);
/* "tcp,udp" from an event's bits. */
void cli_protos_text(uint8_t protos, char out[16]);
#endif
