/* SPDX-License-Identifier: MIT */
/* dibs: every command but `serve` and `kube`, which are programs of their own. */
#include "cli/program.h"

#include "base/banned.h"

int main(int argc, char **argv)
{
    static const struct program self = { .name = "dibs" };

    return program_main(&self, argc, argv);
}
