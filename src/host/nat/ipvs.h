/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOST_NAT_IPVS_H
#define DIBS_HOST_NAT_IPVS_H
/* Virtual services of IPVS, which kube-proxy and load balancers make. */
#include "host/nat/published.h"

/* Add the services of /proc/net/ip_vs: `text` with its NUL, which is changed. False: not in its format. */
bool ipvs_publish(char *text, struct nat_list *list);
/* Read the services of the kernel; the list is empty without IPVS. */
void ipvs_read(struct nat_list *list);
#endif
