/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIMITS_H
#define DIBS_LIMITS_H
/* Every limit of dibs, each with its reason (INV-9). */
#include <stdint.h>

/* Port numbers are 16 bits wide; 0 means "none" everywhere. */
#define DIBS_PORT_MAX 65535

/* A requested name is at most group/role/instance/component/port, parts of at most 63 bytes (a DNS label). A
 * claim that gave its name to another one has its number as a sixth part. With five slashes: */
#define DIBS_NAME_PART_MAX 63
#define DIBS_NAME_PARTS_MAX 5
#define DIBS_NAME_MAX 383

/* People write pool names, and tables show them in a column. */
#define DIBS_POOL_NAME_MAX 63

/* tcp, udp and sctp on IPv4 and IPv6 are six; eight leaves space for more. */
#define DIBS_BINDINGS_MAX 8

/* Pieces of a port range list after merging; more than a person writes on a line. */
#define DIBS_RANGES_MAX 64

/* Bytes of a range list as text: DIBS_RANGES_MAX times "65535-65535,". */
#define DIBS_RANGES_TEXT_MAX 800

/* Claims of one call: its transaction holds the write lock for the whole batch. */
#define DIBS_BATCH_MAX 4096

/* Bytes of an idempotency key: a UUID, or a build system's name of a job. */
#define DIBS_KEY_MAX 128

/* Hosts of one claim: each adds comparisons to one etcd transaction, and a copy of shared records. */
#define DIBS_HOSTS_MAX 16

/* Candidates that one transaction checks for one claim. */
#define DIBS_CANDIDATES_MAX 64

/* The longest project directory that a claim records. */
#define DIBS_PROJECT_MAX 1023
#define DIBS_NODE_MAX 51 /* a host's name in a cluster; DIBS_PRINCIPAL_MAX fits a user and a host */

/* The recorded part of a command: enough to recognise it, without its arguments. */
#define DIBS_COMMAND_MAX 63
/* Of the command line, the unit and the directory of a process that uses a port: enough to recognise it. */
#define DIBS_ARGUMENTS_MAX 255
#define DIBS_UNIT_MAX 127
#define DIBS_DIRECTORY_MAX 511

/* "KIND/NAME" of the Kubernetes object that keeps a claim. */
#define DIBS_KEEPER_MAX 63

/* Port numbers of one command: a manifest's roles see each other's, and a person does not write more of them.
 */
#define DIBS_NUMBERS_MAX 256

/* Why a level of holding could not be had: one sentence. */
#define DIBS_HOLD_NOTE_MAX 191

/* The recorded variables that `dibs run` gave to a process: about forty. A longer text is not recorded. */
#define DIBS_ENV_MAX 1023

/* "uid:4294967295", "@" and two numbers of 20 digits for a pid namespace, and "@" with a host's name for
 * users of other hosts; or "ns:" and a Kubernetes namespace of 63 bytes. */
#define DIBS_PRINCIPAL_MAX 108

/* id, generation (20 digits each), 32 hex digits of secret, two dots. */
#define DIBS_TOKEN_MAX 79

/* The kernel prints the boot id as a UUID. */
#define DIBS_BOOT_ID_MAX 36

/* Events kept for `dibs log` and for followers that catch up; older ones are dropped. */
#define DIBS_EVENTS_KEPT 100000
/* ... for each host of a shared ledger: thousands of hosts must fit into one etcd. */
#define DIBS_EVENTS_KEPT_SHARED 2048

/* Names remembered after release with their last port (INV-7, "bounded"). */
#define DIBS_NAMES_REMEMBERED 20000
#define DIBS_NAMES_REMEMBERED_SHARED 1000

/* A larger observed list or snapshot cannot be one host's ports. */
#define DIBS_INPUT_MAX_BYTES (64u << 20)

/* The longest timeout: a day. */
#define DIBS_TIMEOUT_MAX_MS 86400000
/* The default timeout: longer than a busy ledger lets a caller wait. */
#define DIBS_TIMEOUT_DEFAULT_MS 5000

/* The lease of a claim whose request names no holder, in minutes for help texts. */
#define DIBS_TTL_DEFAULT_MINUTES 10
#define DIBS_TTL_DEFAULT_MS (DIBS_TTL_DEFAULT_MINUTES * INT64_C(60000))

/* The longest lease, ten years: milliseconds cannot overflow. */
#define DIBS_TTL_MAX_MS 315360000000

/* How long a released dynamic port is chosen last, by default: longer than a restart. */
#define DIBS_COOLDOWN_DEFAULT_MS 5000
/* The longest cooldown: a cooling slot is dropped after an hour. */
#define DIBS_COOLDOWN_MAX_MS 3600000

/* How long a claim must be observed unused before a repair drops it: as long as Kubernetes waits between
 * two repairs. A claim that was made and is not used yet needs it. */
#define DIBS_GRACE_DEFAULT_MS 180000

/* A message carries a name, a path and an explanation. */
#define DIBS_ERR_MSG_MAX 768
#endif
