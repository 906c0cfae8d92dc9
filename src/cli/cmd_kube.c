/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/kube.h"
#include "cli/output.h"
#include "kube/inject.h"
#include "json/json.h"

#include "base/banned.h"

static void note(void *ctx, const char *text)
{
    cli_note(ctx, "%s", text);
}

/* {"output": FILE} or {"text": ...} */
static void print_json(const char *path, const char *text)
{
    struct json_writer w = { 0 };

    json_begin(&w, stdout);
    json_object(&w);
    json_key_string(&w, path ? "output" : "text", path ? path : text);
    json_end_object(&w);
    json_finish(&w);
}

/* {"released": 2} */
static void print_count(size_t n)
{
    struct json_writer w = { 0 };

    json_begin(&w, stdout);
    json_object(&w);
    json_key_uint(&w, "released", n);
    json_end_object(&w);
    json_finish(&w);
}

static const char *name_of(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

static dibs_status deliver(struct cli *cli, const char *text, size_t len, dibs_err *err)
{
    const char *path = cli_value(cli, "output");
    bool is_file = path && strcmp(path, "-") != 0;
    dibs_status s = is_file ? cli_output_save(path, text, len, false, err) : DIBS_OK;

    if (s != DIBS_OK || (is_file && !cli->json))
        return s;
    if (cli->json)
        print_json(is_file ? path : NULL, text);
    else
        (void) fwrite(text, 1, len, stdout);
    return cli_flush(cli, err);
}

static dibs_status inject(struct cli *cli, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    AUTO(kube_injection_free_auto) kube_injection *injection = NULL;
    AUTO(free_auto) char *result = NULL;
    const char *path = cli->argv[1];
    size_t len = 0;
    size_t n = 0;
    dibs_err why = { 0 };
    dibs_status s = cli_input_read(path, &text, &len, err);

    if (s == DIBS_OK)
        s = kube_injection_read(name_of(path), text, len, &injection, err);
    if (s != DIBS_OK)
        return s;
    kube_injection_notes(injection, note, cli);
    if (!kube_injection_is_needed(injection))
        return deliver(cli, text, len, err);
    s = cli_open(cli, err);
    if (s == DIBS_OK)
        s = kube_injection_claim(injection, cli->handle, err);
    if (s != DIBS_OK)
        return s;
    s = kube_injection_text(injection, &result, &n, err);
    if (s == DIBS_OK)
        s = deliver(cli, result, n, err);
    if (s != DIBS_OK && kube_injection_undo(injection, cli->handle, &why) != DIBS_OK)
        cli_warn("the claims stay as the new text has them, for they could not be put back: %s", why.msg);
    return s;
}

static dibs_status release(struct cli *cli, dibs_err *err)
{
    AUTO(free_auto) char *text = NULL;
    AUTO(kube_injection_free_auto) kube_injection *objects = NULL;
    const char *path = cli->argv[1];
    size_t len = 0;
    dibs_status s = cli_value(cli, "output")
                        ? err_set(err, DIBS_INVALID, "--release prints no text; leave --output out")
                        : cli_input_read(path, &text, &len, err);

    if (s == DIBS_OK)
        s = kube_release_read(name_of(path), text, len, &objects, err);
    if (s == DIBS_OK && kube_injection_is_needed(objects)) {
        s = cli_open(cli, err);
        if (s == DIBS_OK)
            s = kube_injection_claim(objects, cli->handle, err);
    }
    if (s != DIBS_OK)
        return s;
    size_t n = kube_injection_count(objects, WORKLOAD_DROP);
    if (cli->json)
        print_count(n);
    else
        cli_note(cli, "%zu claim%s ended", n, n == 1 ? "" : "s");
    return DIBS_OK;
}

static dibs_status inject_or_release(struct cli *cli, dibs_err *err)
{
    if (cli->argc != 2)
        return err_set(err, DIBS_INVALID, "`dibs kube inject` needs a FILE, or - for stdin");
    return cli_has(cli, "release") ? release(cli, err) : inject(cli, err);
}

/* A verb, and which options are its own. */
struct verb {
    const char *name;
    const char *const *options;
    dibs_status (*run)(struct cli *cli, dibs_err *err);
};
static const char *const of_inject[] = { "output", "release", NULL };
static const char *const of_webhook[] = { "listen",     "tls-cert",     "tls-key", "start-port",
                                          "port-range", "strategy",     "pending", "template",
                                          "rebuilt",    "check-config", NULL };
static const char *const of_controller[] = { "kubeconfig", "lease-namespace", "metrics-listen",
                                             "start-port", "port-range",      "strategy",
                                             NULL };
static const char *const of_install[] = { "print",      "namespace",  "image",    "api-server", "secret",
                                          "start-port", "port-range", "strategy", NULL };
static const struct verb verbs[] = {
    { "inject", of_inject, inject_or_release },
    { "controller", of_controller, kube_controller },
    { "install", of_install, kube_install },
    { "webhook", of_webhook, kube_webhook },
};

/* An option of another verb would be passed over silently. */
static dibs_status check_given(const struct cli *cli, const struct verb *verb, dibs_err *err)
{
    for (const struct cli_opt *opt = cli->cmd->opts; opt->name; opt++) {
        bool is_its = false;

        for (const char *const *name = verb->options; *name && !is_its; name++)
            is_its = strcmp(*name, opt->name) == 0;
        if (!is_its && cli_has(cli, opt->name))
            return err_set(err, DIBS_INVALID, "`dibs kube %s` has no option --%s", verb->name, opt->name);
    }
    return DIBS_OK;
}

static dibs_status run(struct cli *cli, dibs_err *err)
{
    char safe[64] = "";

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(cli->argv[0], verbs[i].name) == 0) {
            dibs_status s = check_given(cli, &verbs[i], err);

            return s == DIBS_OK ? verbs[i].run(cli, err) : s;
        }
    return err_set(err, DIBS_INVALID, "'%s' is not inject, webhook, controller or install",
                   cli_safe(cli->argv[0], safe, sizeof safe));
}

static const struct cli_opt opts[] = {
    { .name = "output",
      .letter = 'o',
      .arg = "FILE",
      .help = "write to this file instead of standard output",
      .kind = CLI_FILE },
    { .name = "release", .help = "end the claims of the objects in FILE, and print nothing" },
    { .name = "listen", .arg = "ADDRESS", .help = "where the webhook answers: ADDRESS:PORT (:8443)" },
    { .name = "tls-cert",
      .arg = "FILE",
      .help = "its certificate (PEM), read anew when it changes",
      .kind = CLI_FILE },
    { .name = "tls-key", .arg = "FILE", .help = "the certificate's key", .kind = CLI_FILE },
    { .name = "start-port", .arg = "PORT", .help = "first port of pods, if the pool is new (20000)" },
    { .name = "port-range", .arg = "N", .help = "how many ports it has then (10000)" },
    { .name = "strategy",
      .arg = "NAME",
      .help = "order of its ports then: random, or one of dibs (stride)",
      .kind = CLI_WORDS,
      .words = "random stride lowest" },
    { .name = "pending", .arg = "TIME", .help = "how long a pod may take to come to be (5m)" },
    { .name = "template",
      .arg = "KIND=PATH",
      .help = "check pods described in other objects, too",
      .is_repeatable = true },
    { .name = "rebuilt", .help = "claim nothing before a controller has rebuilt the ledger" },
    { .name = "kubeconfig",
      .arg = "FILE",
      .help = "API server of the controller (in a pod: its own)",
      .kind = CLI_FILE },
    { .name = "lease-namespace", .arg = "NAME", .help = "where the Lease is that tells who leads" },
    { .name = "metrics-listen",
      .arg = "ADDRESS",
      .help = "the controller's health and metrics (127.0.0.1:9464)" },
    { .name = "print", .help = "write the objects of `install`, a key among them, to standard output" },
    { .name = "namespace", .arg = "NAME", .help = "where `install` puts them (dibs)" },
    { .name = "image", .arg = "IMAGE", .help = "what their containers run (dibs)" },
    { .name = "api-server",
      .arg = "RANGE",
      .help = "let only these addresses ask the webhook (10.0.0.0/28)",
      .is_repeatable = true },
    { .name = "secret",
      .arg = "FILE",
      .help = "with the certificate of this Secret (YAML), not a new one",
      .kind = CLI_FILE },
    { .name = "check-config", .help = "only see whether the webhook could start" },
    { 0 },
};

const struct cli_cmd cmd_kube = {
    .name = "kube",
    .args = "inject FILE | webhook | controller | install --print",
    .summary = "Put ports into Kubernetes objects",
    .details = "`inject` reads YAML or JSON (- is standard input), finds the pods and pod\n"
               "templates with the annotation dibs.dev/ports, or RBG's port-allocator, claims\n"
               "what they ask for, kept, and prints the same text with the ports in it:\n"
               "variables in all containers, annotations, and host ports with hostNetwork.\n"
               "Everything else stays byte for byte. The same file gets the same ports again,\n"
               "until --release ends its objects' claims, whatever they ask for by then.\n"
               "\n"
               "  dibs.dev/ports: |\n"
               "    {\"allocations\": [{\"name\": \"http\", \"env\": \"PORT\"}],\n"
               "     \"references\": [{\"env\": \"API_PORT\", \"from\": \"api.http\"}]}\n"
               "\n"
               "An allocation may also have annotationKey, scope (PodScoped or RoleScoped),\n"
               "proto, address, port, prefer, count and contiguous. A reference names a role of\n"
               "the same object, or another object of the same file and namespace.\n"
               "\n"
               "`webhook` answers the API server of a cluster (HTTPS, POST /mutate): pods with\n"
               "such an annotation get their ports when they are created, unique in the\n"
               "cluster, from the pool `kube` (--pool) of the ledger (--ledger etcd://...). Any\n"
               "number of replicas may share it. Ends with SIGTERM; log lines go to standard\n"
               "error.\n"
               "\n"
               "`controller` follows the objects of the cluster, with the same ledger: claims\n"
               "are confirmed when their pod is seen, written again when the ledger has lost\n"
               "them, and end when nothing needs them any more. Of several one leads.\n"
               "\n"
               "`install --print` writes all objects that a cluster needs for it, for\n"
               "`kubectl apply -f -`: those of contrib/k8s, with the ledger (--ledger\n"
               "etcd://...) and a certificate for the webhook that is made now and is good for\n"
               "ten years. When they are written again, --secret keeps the certificate.",
    .examples = "echo 'kind: Service' | dibs kube inject -\n",
    .opts = opts,
    .flags = CLI_CLAIMS,
    .min_args = 1,
    .max_args = 2,
    .args_kind = CLI_WORDS,
    .args_words = "inject webhook controller install",
    .run = run,
};
