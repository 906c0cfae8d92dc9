/* SPDX-License-Identifier: MIT */
/* Claim a port, listen on it, print it, give it back.
 *
 *   cc -o claim claim.c $(pkg-config --cflags --libs dibs) && ./claim shop/web
 *
 * The ledger is where the settings say, such as DIBS_LEDGER=sqlite:/tmp/ledger.db. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <dibs/dibs.h>

/* The claim is ours, so this bind does not race with anybody who asks dibs first. */
static int listen_on(uint16_t port)
{
    struct sockaddr_in address;
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
        bind(fd, (const struct sockaddr *) &address, sizeof address) || listen(fd, 16)) {
        (void) close(fd);
        return -1;
    }
    return fd;
}

int main(int argc, char **argv)
{
    /* Held by this process: when it dies, however it dies, the port is free again. */
    dibs_request request = { .name = argc > 1 ? argv[1] : NULL, .holder = DIBS_HELD_BY_PROCESS };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs *handle = NULL;
    dibs_claim claim;
    dibs_err err;
    int code = 1;

    if (dibs_open(NULL, &handle, &err) != DIBS_OK) {
        (void) fprintf(stderr, "claim: %s\n", err.msg);
        return (int) err.code;
    }
    if (dibs_claim_ports(handle, &batch, &claim, &err) != DIBS_OK) {
        (void) fprintf(stderr, "claim: %s\n", err.msg);
        code = (int) err.code;
    } else {
        dibs_which mine = { .token = claim.token };
        int fd = listen_on(claim.port);

        if (fd < 0) {
            perror("claim: listen");
        } else {
            code = printf("%u\n", (unsigned) claim.port) < 0;
            (void) close(fd);
        }
        if (dibs_claim_release(handle, &mine, 0, NULL, &err) != DIBS_OK)
            (void) fprintf(stderr, "claim: not released: %s\n", err.msg);
    }
    dibs_close(handle);
    return code;
}
