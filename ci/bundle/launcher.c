/*
 * Every program of the bundle, under its own name: starts the real one, libexec/NAME, with the
 * bundle's loader and libraries in place of the image's, which may be another libc or none.
 *
 * Linked statically, as the kernel looks for a program's own loader at a fixed place. The folder is
 * found by the kernel's name of this file, so the bundle works wherever it is unpacked.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static char root[PATH_MAX];

static char *in_bundle(const char *format, const char *name)
{
    char *path;
    if (asprintf(&path, format, root, name) < 0)
        exit(127);
    return path;
}

/* The folder above bin/ or git-core/; returns the program's name. /proc may not be mounted. */
static const char *find_bundle(void)
{
    static char name[NAME_MAX + 1];
    if (!realpath("/proc/self/exe", root) && !realpath((char *)getauxval(AT_EXECFN), root)) {
        fprintf(stderr, "nightshift: cannot find its own folder: mount /proc\n");
        exit(127);
    }
    char *slash = strrchr(root, '/');
    snprintf(name, sizeof name, "%s", slash + 1);
    *slash = 0;
    *strrchr(root, '/') = 0;
    return name;
}

/* git as in the image if it has one, this one behind it. */
static void append_to_path(void)
{
    const char *old = getenv("PATH"), *own = in_bundle("%s/git%s", "");
    const char *known = old && *old ? old : "/usr/local/bin:/usr/bin:/bin";
    char *path;
    if (!strstr(known, own) && asprintf(&path, "%s:%s", known, own) > 0)
        setenv("PATH", path, 1);
}

static void set_git_folders(void)
{
    setenv("GIT_EXEC_PATH", in_bundle("%s/git-core%s", ""), 1);
    setenv("GIT_TEMPLATE_DIR", in_bundle("%s/share/templates%s", ""), 0);
}

int main(int argc, char **argv)
{
    const char *name = find_bundle(), *real = name, *self = argv[0];
    int command = !strcmp(name, "nightshift"), python = command || !strcmp(name, "python3");
    if (python) {
        real = "python3";
        self = in_bundle("%s/bin/%s", "python3");
    } else if (!strncmp(name, "git", 3)) {
        set_git_folders();
        self = name;
        real = strncmp(name, "git-remote-", 11) ? "git" : "git-remote-http";
    }
    if (command)
        append_to_path();
    char **list = calloc(argc + 12, sizeof *list);
    if (!list)
        return 127;
    int n = 0;
    list[n++] = in_bundle("%s/lib/%s", LOADER);
    list[n++] = "--inhibit-cache"; /* the image's cache names libraries of another libc */
    list[n++] = "--library-path";
    list[n++] = in_bundle("%s/lib%s", "");
    list[n++] = "--argv0";
    list[n++] = (char *)self;
    list[n++] = in_bundle("%s/libexec/%s", real);
    if (command) { /* -I: PYTHONPATH is the project's, and may name a folder that an agent writes */
        list[n++] = "-I";
        list[n++] = "-m";
        list[n++] = "gitlab_nightshift";
    }
    memcpy(list + n, argv + 1, argc * sizeof *list);
    execv(list[0], list);
    perror("nightshift: cannot start the bundle's loader");
    return 126;
}
