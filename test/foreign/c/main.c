// main.c: the suite "c": Apache's C client (libzookeeper_mt) through every
// member of a connect string.
//
//	tour HOST:PORT[,HOST:PORT...]
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS_MAX = 16 };

static int split(char *connect, char **members) {
    int count = 0;
    for (char *m = strtok(connect, ","); m != NULL && count < MEMBERS_MAX; m = strtok(NULL, ",")) {
        members[count++] = m;
    }
    return count;
}

int main(int argc, char **argv) {
    zoo_set_debug_level(0);
    if (argc == 5 && strcmp(argv[1], "--orphan") == 0) {
        return orphan(argv[2], argv[3], atoi(argv[4]));
    }
    char *members[MEMBERS_MAX];
    int count = argc == 2 ? split(argv[1], members) : 0;
    if (count == 0) {
        fprintf(stderr, "usage: %s HOST:PORT[,HOST:PORT...]\n", argv[0]);
        return 2;
    }

    char root[64];
    snprintf(root, sizeof root, "/foreign-c-%ld-%d", (long)time(NULL), (int)getpid());
    step("setup");
    zhandle_t *zh = session(members[0], 10000, NULL);
    bool ready = zh != NULL && want_rc("create", open_create(zh, root, "", 0, NULL), ZOK);
    for (int i = 0; ready && i < count; i++) {
        zhandle_t *each = session(members[i], 10000, NULL);
        ready = each != NULL && want_rc("sync", sync_path(each, root), ZOK);
        if (each != NULL) {
            zookeeper_close(each);
        }
    }
    done();
    if (ready) {
        for (int i = 0; i < count; i++) {
            char name[16], base[PATH_MAX_LEN];
            snprintf(name, sizeof name, "m%d", i);
            tour_member(name, members[i], members[(i + 1) % count], join_path(base, root, name));
        }
        tour_sessions(members, count, root);
        tour_recipes(members, count, root);
        step("cleanup");
        struct Stat stat;
        want_rc("auth", auth(zh, "digest", "alice:secret"), ZOK);
        remove_tree(zh, root);
        want_rc("root is gone", zoo_exists(zh, root, 0, &stat), ZNONODE);
        done();
    }
    if (zh != NULL) {
        zookeeper_close(zh);
    }
    return sum();
}
