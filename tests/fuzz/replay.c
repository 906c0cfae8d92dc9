/* SPDX-License-Identifier: MIT */
/* Feeds stored inputs to a fuzz target without libFuzzer, so that a plain test run
 * replays every old finding. Arguments are files, or directories of files. Replaying
 * nothing is a failure: an empty corpus would otherwise look like a pass. */
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t input[1 << 20];

static bool replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");

    if (!file) {
        perror(path);
        return false;
    }
    size_t n = fread(input, 1, sizeof input, file);
    bool whole = !ferror(file) && fgetc(file) == EOF;
    (void) fclose(file);
    if (!whole) {
        (void) fprintf(stderr, "%s: cannot be read whole into %zu bytes\n", path, sizeof input);
        return false;
    }
    (void) LLVMFuzzerTestOneInput(input, n);
    return true;
}

/* The number of files replayed, or -1. Hidden files and folders inside are left out. */
static int replay_directory(const char *path)
{
    DIR *directory = opendir(path);
    int n = 0;

    if (!directory) {
        perror(path);
        return -1;
    }
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char file[4096] = "";
        struct stat about = { 0 };

        if (entry->d_name[0] == '.')
            continue;
        int length = snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        bool is_known = length > 0 && (size_t) length < sizeof file && stat(file, &about) == 0;
        if (is_known && !S_ISREG(about.st_mode))
            continue;
        if (!is_known || !replay_file(file)) {
            (void) fprintf(stderr, "%s/%s: not replayed\n", path, entry->d_name);
            n = -1;
            break;
        }
        n++;
    }
    (void) closedir(directory);
    return n;
}

static int replay(const char *path)
{
    struct stat about = { 0 };

    if (stat(path, &about) != 0) {
        perror(path);
        return -1;
    }
    if (S_ISDIR(about.st_mode))
        return replay_directory(path);
    return replay_file(path) ? 1 : -1;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);

        if (n < 0)
            return 1;
        total += n;
    }
    (void) printf("%d inputs replayed\n", total);
    if (total == 0)
        (void) fprintf(stderr, "no input was replayed\n");
    return total == 0;
}
