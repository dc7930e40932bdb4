/* Runs the cases that are named, or all; see check.h. */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    const char *name;
    test_fn run;
} tests[200];
static size_t count;

static char folder[64];
static pid_t maker;

void test_register(const char *name, test_fn run) {
    CHECK(count < sizeof tests / sizeof tests[0]);
    tests[count].name = name;
    tests[count++].run = run;
}

static void tidy(void) {
    DIR *dir;
    struct dirent *entry;
    char path[400];
    if (getpid() != maker || (dir = opendir(folder)) == NULL) return;
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(dir);
    rmdir(folder);
}

const char *place(const char *name) {
    static char paths[8][400];
    static int next;
    char *path = paths[next = (next + 1) % 8];
    if (folder[0] == '\0') {
        strcpy(folder, "/dev/shm/commonhold-c-XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
        maker = getpid();
        atexit(tidy);
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

ch_hold *new_hold(void) {
    ch_hold *hold;
    DONE(ch_hold_create(place("it.hold"), NULL, &hold, &E));
    return hold;
}

ch_map *new_map(ch_hold *hold, const char *name, const ch_map_options *options) {
    ch_map *map;
    DONE(ch_map_open_or_create(hold, name, options, &map, &E));
    return map;
}

int is_text(const void *data, size_t len, const char *text) {
    return len == strlen(text) && (len == 0 || memcmp(data, text, len) == 0);
}

int bytes_are(const ch_bytes *bytes, const char *text) { return is_text(bytes->data, bytes->len, text); }
int slice_is(ch_slice slice, const char *text) { return is_text(slice.data, slice.len, text); }

ch_slice text_slice(const char *text) {
    ch_slice slice = {text, strlen(text)};
    return slice;
}

void whole(ch_hold *hold) {
    ch_check_report report;
    ch_bytes problems = CH_BYTES_INIT;
    int result = ch_hold_check(hold, &report, &problems, NULL);
    if (result != CH_OK) fprintf(stderr, "%.*s\n", (int)problems.len, (char *)problems.data);
    CHECK(result == CH_OK);
    CHECK(report.problems == 0 && report.allocated == report.reachable + report.in_flight);
    ch_bytes_free(&problems);
}

void ended_well(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void killed(pid_t child) {
    int status;
    CHECK(child > 0 && kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv) {
    size_t passed = 0;
    /* A case that hangs fails. */
    alarm(120);
    for (size_t i = 0; i < count; i++) {
        int wanted = argc == 1;
        for (int at = 1; at < argc; at++) wanted |= strcmp(argv[at], tests[i].name) == 0;
        if (!wanted) continue;
        if (argc == 2) {
            tests[i].run();
        } else {
            pid_t child = fork();
            if (child == 0) {
                tests[i].run();
                exit(0);
            }
            ended_well(child);
        }
        passed++;
    }
    CHECK(passed > 0);
    printf("%zu passed\n", passed);
    return 0;
}
