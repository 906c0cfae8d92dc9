/* SPDX-License-Identifier: MIT */
/* Reviews to a webhook over TLS at a fixed rate, as API servers send them: on kept connections, to its
 * replicas in turn. Each is timed from when it was due, so that one that had to wait for others counts with
 * its wait.
 *
 *     webhook CA RATE SECONDS claim|pass URL...
 *
 * {"p50_us": 1, "p99_us": 1, "max_us": 1, "requests": 1, "errors": 0} on stdout. */
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "bench.h"
#include "http/client.h"

enum { URLS_MAX = 8, BODY_MAX = 8192, DEADLINE_MS = 30000, CONNECTIONS = 8, WARM_UP = 2 * CONNECTIONS };

struct review {
    struct load *load;
    int64_t due_ns, took_ns;
    char body[BODY_MAX];
};

struct load {
    struct review *all;
    size_t n, n_done, n_errors;
    bool is_claiming;
};

/* A pod as a Deployment makes it, with what Kubernetes itself adds. */
static int write_body(char *out, size_t i, bool is_claiming)
{
    static const char filler[] =
        "\"volumes\":[{\"name\":\"kube-api-access-x7k2p\",\"projected\":{\"sources\":[{"
        "\"serviceAccountToken\":{"
        "\"expirationSeconds\":3607,\"path\":\"token\"}},{\"configMap\":{\"items\":[{\"key\":\"ca.crt\","
        "\"path\":"
        "\"ca.crt\"}],\"name\":\"kube-root-ca.crt\"}},{\"downwardAPI\":{\"items\":[{\"fieldRef\":{"
        "\"apiVersion\":"
        "\"v1\",\"fieldPath\":\"metadata.namespace\"},\"path\":\"namespace\"}]}}],\"defaultMode\":420}}],"
        "\"restartPolicy\":\"Always\",\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\","
        "\"serviceAccountName\":\"default\",\"securityContext\":{},\"schedulerName\":\"default-scheduler\","
        "\"tolerations\":[{\"key\":\"node.kubernetes.io/"
        "not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
        "\"tolerationSeconds\":300},{\"key\":\"node.kubernetes.io/"
        "unreachable\",\"operator\":\"Exists\",\"effect\":"
        "\"NoExecute\",\"tolerationSeconds\":300}],\"priority\":0,\"enableServiceLinks\":true,"
        "\"preemptionPolicy\":"
        "\"PreemptLowerPriority\"";

    return snprintf(
        out, BODY_MAX,
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/"
        "v1\",\"request\":{\"uid\":\"bench-%zu\",\"kind\":{"
        "\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},\"namespace\":\"bench\",\"operation\":"
        "\"CREATE\",\"object\":{"
        "\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"generateName\":\"web-7d4b9c-\",\"labels\":{"
        "\"app\":\"web\","
        "\"pod-template-hash\":\"7d4b9c\"},\"annotations\":{%s},\"ownerReferences\":[{\"apiVersion\":\"apps/"
        "v1\",\"kind\":"
        "\"ReplicaSet\",\"name\":\"web-7d4b9c\",\"uid\":\"1\",\"controller\":true}]},\"spec\":{"
        "\"containers\":[{\"name\":"
        "\"main\",\"image\":\"web:1\",\"env\":[{\"name\":\"URL\",\"value\":\"http://"
        "0.0.0.0:$(PORT)\"}],\"resources\":{},"
        "\"volumeMounts\":[{\"name\":\"kube-api-access-x7k2p\",\"mountPath\":\"/var/run/"
        "secrets\"}]}],%s}},\"dryRun\":false}}",
        i,
        is_claiming
            ? "\"dibs.dev/"
              "ports\":\"{\\\"allocations\\\":[{\\\"name\\\":\\\"http\\\",\\\"env\\\":\\\"PORT\\\"}]}\""
            : "",
        filler);
}

static void done(void *ctx, struct web_answer *answer)
{
    struct review *review = ctx;
    const char *wanted = review->load->is_claiming ? "\"patch\"" : "\"allowed\":true";

    review->took_ns = bench_now_ns() - review->due_ns;
    review->load->n_done++;
    review->load->n_errors += answer->status != DIBS_OK || answer->http_status != 200 ||
                              !memmem(answer->body.at, answer->body.n, wanted, strlen(wanted));
}

static void start(struct web *web, struct review *review, const char *url, size_t i)
{
    static const char *const headers[] = { "Content-Type: application/json" };
    int n = write_body(review->body, i, review->load->is_claiming);
    struct web_call *call = NULL;
    dibs_err err = { 0 };
    const struct web_request request = { .method = "POST",
                                         .url = url,
                                         .headers = headers,
                                         .n_headers = 1,
                                         .body = review->body,
                                         .n_body = (size_t) n,
                                         .deadline_ms = clock_monotonic_ms() + DEADLINE_MS,
                                         .done = done,
                                         .ctx = review };

    if (n >= BODY_MAX || web_start(web, &request, &call, &err) != DIBS_OK) {
        (void) fprintf(stderr, "webhook: %s\n", err.msg);
        exit(1);
    }
}

static void wait_for(struct web *web, int64_t until_ns)
{
    struct pollfd fd = { .fd = web_fd(web), .events = POLLIN };
    int64_t left = until_ns - bench_now_ns();
    struct timespec wait = { .tv_sec = left > 0 ? left / 1000000000 : 0,
                             .tv_nsec = left > 0 ? left % 1000000000 : 0 };

    (void) ppoll(&fd, 1, &wait, NULL);
    if (fd.revents)
        web_turn(web);
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *) a;
    const int64_t y = *(const int64_t *) b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    struct web *web = NULL;
    dibs_err err = { 0 };

    if (argc < 6 || argc > 5 + URLS_MAX ||
        web_open(&(struct web_options){ .ca = argv[1] }, &web, &err) != DIBS_OK) {
        (void) fprintf(stderr, "usage: webhook CA RATE SECONDS claim|pass URL...\n%s\n", err.msg);
        return 1;
    }
    int64_t step_ns = 1000000000 / strtoll(argv[2], NULL, 10);
    struct load load = { .is_claiming = strcmp(argv[4], "claim") == 0 };
    size_t n_urls = (size_t) argc - 5;

    load.n = WARM_UP + (size_t) (strtoll(argv[2], NULL, 10) * strtoll(argv[3], NULL, 10));
    load.all = calloc(load.n, sizeof *load.all);
    int64_t *took = calloc(load.n, sizeof *took);
    if (!load.all || !took)
        return 1;
    /* The first make the connections, all at once, and are not counted. */
    int64_t due_ns = bench_now_ns();
    for (size_t i = 0; i<load.n; i++, due_ns += i> WARM_UP ? step_ns : 0) {
        while (i == WARM_UP && load.n_done < WARM_UP)
            wait_for(web, bench_now_ns() + 100000000);
        due_ns = i == WARM_UP ? bench_now_ns() : due_ns;
        while (bench_now_ns() < due_ns)
            wait_for(web, due_ns);
        while (i - load.n_done >= CONNECTIONS) /* as many as are kept: a handshake is none of the review */
            wait_for(web, bench_now_ns() + 100000000);
        load.all[i].load = &load;
        load.all[i].due_ns = due_ns;
        start(web, &load.all[i], argv[5 + i % n_urls], i);
    }
    while (load.n_done < load.n)
        wait_for(web, bench_now_ns() + 100000000);
    size_t n = load.n - WARM_UP;
    for (size_t i = 0; i < n; i++)
        took[i] = load.all[WARM_UP + i].took_ns / 1000;
    qsort(took, n, sizeof *took, by_size);
    (void) printf("{\"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64 ", \"max_us\": %" PRId64
                  ", \"requests\": %zu, \"errors\": %zu}\n",
                  took[n / 2], took[n * 99 / 100], took[n - 1], n, load.n_errors);
    web_close(web);
    free(load.all);
    free(took);
    return 0;
}
