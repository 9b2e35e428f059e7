// recipes.c: a lock and a leader election made by hand from ephemeral
// sequential znodes, each contender with a session through another member.
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTENDERS = 3, ROUNDS = 5 };

// predecessor finds the child of dir that comes right before mine in sequence
// order and writes its path to out. 1: mine is the first; 0: found; < 0: error.
static int predecessor(zhandle_t *zh, const char *dir, const char *mine, char *out) {
    struct String_vector kids = {0};
    int rc = zoo_get_children(zh, dir, 0, &kids);
    if (rc != ZOK) {
        return rc;
    }
    const char *own = strrchr(mine, '/') + 1, *best = NULL;
    for (int i = 0; i < kids.count; i++) {
        if (strcmp(kids.data[i], own) < 0 && (best == NULL || strcmp(kids.data[i], best) > 0)) {
            best = kids.data[i];
        }
    }
    if (best != NULL) {
        join_path(out, dir, best);
    }
    deallocate_String_vector(&kids);
    return best == NULL ? 1 : 0;
}

// queue_up waits until mine is the first in dir. It watches only its predecessor.
static int queue_up(zhandle_t *zh, const char *dir, const char *mine) {
    for (;;) {
        char before[PATH_MAX_LEN];
        int rc = predecessor(zh, dir, mine, before);
        if (rc != 0) {
            return rc > 0 ? ZOK : rc;
        }
        struct Stat stat;
        struct events *e = events_new();
        rc = zoo_wexists(zh, before, on_event, e, &stat);
        if (rc == ZOK) {
            want_event(e, ZOO_DELETED_EVENT, before);
            events_free(e);
        } else if (rc != ZNONODE) {
            return rc;
        }
        // After ZNONODE the watch stays armed on a path that never comes back,
        // so its events are left alive on purpose.
    }
}

static int line_up(zhandle_t *zh, const char *dir, char *mine) {
    char prefix[PATH_MAX_LEN];
    return open_create(zh, join_path(prefix, dir, "n-"), "", ZOO_EPHEMERAL_SEQUENTIAL, mine);
}

// contender is one thread of the lock check.
struct contender {
    pthread_t thread;
    const char *member, *dir;
    int *inside, *count; // what the lock protects
};

static void *contend(void *context) {
    struct contender *me = context;
    zhandle_t *zh = session(me->member, 10000, NULL);
    for (int round = 0; zh != NULL && round < ROUNDS; round++) {
        char mine[PATH_MAX_LEN];
        if (!want_rc("line up", line_up(zh, me->dir, mine), ZOK) ||
            !want_rc("wait", queue_up(zh, me->dir, mine), ZOK)) {
            break;
        }
        int holders = __atomic_add_fetch(me->inside, 1, __ATOMIC_SEQ_CST);
        want_int("holders at once", holders, 1);
        int seen = __atomic_load_n(me->count, __ATOMIC_SEQ_CST);
        usleep(5000);
        __atomic_store_n(me->count, seen + 1, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(me->inside, 1, __ATOMIC_SEQ_CST);
        want_rc("unlock", zoo_delete(zh, mine, 0), ZOK);
    }
    if (zh != NULL) {
        zookeeper_close(zh);
    }
    return NULL;
}

static void lock(char *const *members, int count, const char *dir) {
    step("lock");
    int inside = 0, sum_up = 0;
    struct contender all[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++) {
        all[i] = (struct contender){0, members[i % count], dir, &inside, &sum_up};
        pthread_create(&all[i].thread, NULL, contend, &all[i]);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        pthread_join(all[i].thread, NULL);
    }
    want_int("lock-protected count", sum_up, CONTENDERS * ROUNDS);
    done();
}

// election: the lowest znode leads; a leader that leaves hands over to the next.
static void election(char *const *members, int count, const char *dir) {
    step("election");
    zhandle_t *candidate[CONTENDERS] = {0};
    char mine[CONTENDERS][PATH_MAX_LEN], before[PATH_MAX_LEN];
    bool ready = true;
    for (int i = 0; i < CONTENDERS && ready; i++) {
        candidate[i] = session(members[i % count], 10000, NULL);
        ready = candidate[i] != NULL && want_rc("line up", line_up(candidate[i], dir, mine[i]), ZOK);
    }
    for (int i = 0; i < CONTENDERS && ready; i++) {
        for (int j = i; j < CONTENDERS; j++) {
            want_rc("sync", sync_path(candidate[j], dir), ZOK);
            want_int("leads", predecessor(candidate[j], dir, mine[j], before), j == i ? 1 : 0);
        }
        if (i + 1 < CONTENDERS) {
            struct Stat stat;
            struct events *e = events_new();
            want_rc("watch", zoo_wexists(candidate[i + 1], mine[i], on_event, e, &stat), ZOK);
            want_rc("leave", zookeeper_close(candidate[i]), ZOK);
            candidate[i] = NULL;
            want_event(e, ZOO_DELETED_EVENT, mine[i]);
            events_free(e);
        }
    }
    for (int i = 0; i < CONTENDERS; i++) {
        if (candidate[i] != NULL) {
            zookeeper_close(candidate[i]);
        }
    }
    done();
}

void tour_recipes(char *const *members, int count, const char *base) {
    char dir[PATH_MAX_LEN];
    zhandle_t *zh = session(members[0], 10000, NULL);
    if (zh == NULL) {
        return;
    }
    step("recipes-setup");
    want_rc("lock znode", open_create(zh, join_path(dir, base, "lock"), "", 0, NULL), ZOK);
    want_rc("election znode", open_create(zh, join_path(dir, base, "election"), "", 0, NULL), ZOK);
    for (int i = 0; i < count; i++) {
        zhandle_t *other = session(members[i], 10000, NULL);
        if (other != NULL) {
            want_rc("sync", sync_path(other, dir), ZOK);
            zookeeper_close(other);
        }
    }
    zookeeper_close(zh);
    done();
    lock(members, count, join_path(dir, base, "lock"));
    election(members, count, join_path(dir, base, "election"));
}
