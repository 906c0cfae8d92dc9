/* SPDX-License-Identifier: MIT */
/* dibs: every command except `serve` and `kube`, which are separate programs. */
#include "cli/program.h"

#include "base/banned.h"

int main(int argc, char **argv)
{
    static const struct program self = { .name = "dibs" };

    return program_main(&self, argc, argv);
}
