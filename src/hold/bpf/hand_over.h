/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_BPF_HAND_OVER_H
#define DIBS_HOLD_BPF_HAND_OVER_H
/* What dibs-bpf sends to the daemon: one message with the descriptors, or with the reason of a failure. */

enum {
    HAND_OVER_FD = 3, /* the socket, in dibs-bpf */
    HAND_OVER_TEXT_MAX = 512,
    HAND_OVER_FDS = 4,
    HAND_OVER_CLAIMED = 0, /* index of the map of claimed ports */
    HAND_OVER_EXEMPT,      /* the map that names the daemon */
    HAND_OVER_BIND4,       /* the attachments */
    HAND_OVER_BIND6,
};

/* Where attachments outlive the daemon (dibs serve --enforce-persistent). */
#define HAND_OVER_PINS "/sys/fs/bpf/dibs"
#endif
