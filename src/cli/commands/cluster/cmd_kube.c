/* SPDX-License-Identifier: MIT */
/* The help of `dibs kube`; src/cli/kube runs it. */
#include "cli/cli.h"

#include "base/banned.h"

static const struct cli_opt opts[] = {
    { .name = "output",
      .letter = 'o',
      .arg = "FILE",
      .help = "write to this file instead of standard output" },
    { .name = "release", .help = "end the claims of the objects in FILE, and print nothing" },
    { .name = "listen", .arg = "ADDRESS", .help = "where the webhook answers: ADDRESS:PORT (:8443)" },
    { .name = "tls-cert", .arg = "FILE", .help = "its certificate (PEM), reloaded when it changes" },
    { .name = "tls-key", .arg = "FILE", .help = "the certificate's key" },
    { .name = "installation",
      .arg = "FILE",
      .help = "id and keys of this installation, as `install` makes them" },
    { .name = "start-port", .arg = "PORT", .help = "first port of pods, if the pool is new (20000)" },
    { .name = "port-range", .arg = "N", .help = "how many ports it has then (10000)" },
    { .name = "strategy",
      .arg = "NAME",
      .help = "order of its ports then: random, or one of dibs (stride)",
      .words = "random stride lowest",
      .alias = "port-allocate-strategy" },
    { .name = "enable-port-allocator", .help = "RBG's switch: accepted, the webhook always gives ports" },
    { .name = "pending", .arg = "TIME", .help = "how long a pod may take to be created (90s)" },
    { .name = "template",
      .arg = "KIND=PATH",
      .help = "check pods described in other objects, too",
      .is_repeatable = true },
    { .name = "rebuilt", .help = "claim nothing before a controller has rebuilt the ledger" },
    { .name = "no-quota", .help = "let a namespace have more than its quota of ports" },
    { .name = "kubeconfig", .arg = "FILE", .help = "API server of controller and `ls` (in a pod: its own)" },
    { .name = "lease-namespace", .arg = "NAME", .help = "namespace of the controller and its Lease" },
    { .name = "metrics-listen",
      .arg = "ADDRESS",
      .help = "the controller's health and metrics (127.0.0.1:9464)" },
    { .name = "print", .help = "write the objects of `install`, a key among them, to standard output" },
    { .name = "namespace",
      .letter = 'n',
      .arg = "NAME",
      .help = "where `install` puts them (dibs), or whose pods `ls` shows" },
    { .name = "all-namespaces", .letter = 'A', .help = "pods of all namespaces" },
    { .name = "controller", .arg = "URL", .help = "ask this controller, not that in the cluster" },
    { .name = "image", .arg = "IMAGE", .help = "what their containers run (dibs)" },
    { .name = "api-server",
      .arg = "RANGE",
      .help = "let only these addresses call the webhook (10.0.0.0/28)",
      .is_repeatable = true },
    { .name = "secret", .arg = "FILE", .help = "with the certificate and keys of these Secrets (YAML)" },
    { .name = "kubernetes", .arg = "VERSION", .help = "for a cluster of this version (1.28 or later)" },
    { .name = "check-config", .help = "only check whether the webhook could start" },
    { 0 },
};

const struct cli_cmd cmd_kube = {
    .name = "kube",
    .group = CLI_CLUSTER,
    .args = "inject FILE | ls | webhook | controller | install --print",
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
               "proto, address, port, prefer, count, contiguous, and hostPort (false: without\n"
               "a host port). A reference names a role of the same object, or another object\n"
               "of the same file and namespace.\n"
               "\n"
               "`webhook` answers the API server of a cluster (HTTPS, POST /mutate): pods with\n"
               "such an annotation get their ports when they are created, unique in the\n"
               "cluster, from the pool `kube` (--pool) of the ledger (--ledger etcd://...). Any\n"
               "number of replicas may share it. Ends with SIGTERM; log lines go to standard\n"
               "error. The flags of RBG's allocator have the same meaning here, --strategy is\n"
               "also called --port-allocate-strategy.\n"
               "\n"
               "`controller` follows the objects of the cluster, with the same ledger: claims\n"
               "are confirmed when their pod is seen, written again when the ledger has lost\n"
               "them, and end when nothing needs them any more. One of several leads.\n"
               "\n"
               "`ls` shows pods with their ports: pending (the controller has not seen the pod),\n"
               "claimed, lost (the ledger does not have them), missed (created without the\n"
               "webhook) or finished; and claims without a pod: reserved (pods refer to them),\n"
               "kept (for an instance that comes back), ending, or declared (of a Service).\n"
               "`kubectl dibs` is the same as `dibs kube`.\n"
               "\n"
               "`install --print` writes all objects that a cluster needs for it, for\n"
               "`kubectl apply -f -`: those of contrib/k8s, with the ledger (--ledger\n"
               "etcd://...), a certificate for the webhook that is made now and is good for\n"
               "ten years, and the id and keys of the installation, which webhook and\n"
               "controller need (--installation). When they are written again, --secret keeps\n"
               "all of these.",
    .examples = "echo 'kind: Service' | dibs kube inject -\n",
    .opts = opts,
    .flags = CLI_CLAIMS,
    .min_args = 1,
    .max_args = 2,
    .args_words = "inject ls webhook controller install",
    .program = "dibs-kube",
};
