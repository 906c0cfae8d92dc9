/* SPDX-License-Identifier: MIT */
/* The numbers of a tree. There are few: a search from the start costs less than a table. */
#include "hold/as/internal.h"

#include "base/banned.h"

const struct as_number *as_number_inside(const struct as_tree *tree, dibs_proto proto, uint16_t port)
{
    for (size_t i = 0; i < tree->n; i++)
        if (tree->numbers[i].inside == port && tree->numbers[i].proto == proto)
            return &tree->numbers[i];
    return NULL;
}

const struct as_number *as_number_outside(const struct as_tree *tree, dibs_proto proto, uint16_t port)
{
    for (size_t i = 0; i < tree->n; i++)
        if (tree->numbers[i].outside == port && tree->numbers[i].proto == proto)
            return &tree->numbers[i];
    return NULL;
}

bool as_number_is_inside(const struct as_tree *tree, uint16_t port)
{
    return as_number_inside(tree, DIBS_TCP, port) || as_number_inside(tree, DIBS_UDP, port);
}
