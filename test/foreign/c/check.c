// check.c: reporting, bounded steps, sessions and watches of the C suite.
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char step_name[128];
static char step_detail[512];
static bool step_failed;
static int passed, failed;
static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;

// on_alarm runs when a step does not end. Formatting in a signal handler is
// safe enough here, since the process ends with it.
static void on_alarm(int signal_number) {
    (void)signal_number;
    char text[256];
    int n = snprintf(text, sizeof text, "FAIL c %s: took too long\n%d passed, %d failed\n", step_name,
                     passed, failed + 1);
    if (write(STDOUT_FILENO, text, (size_t)n) < 0) {
        _exit(2);
    }
    _exit(1);
}

void step(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(step_name, sizeof step_name, format, args);
    va_end(args);
    step_failed = false;
    signal(SIGALRM, on_alarm);
    alarm(STEP_SECONDS);
}

void done(void) {
    alarm(0);
    if (step_failed) {
        failed++;
        printf("FAIL c %s: %s\n", step_name, step_detail);
    } else {
        passed++;
        printf("ok c %s\n", step_name);
    }
    fflush(stdout);
}

void fail(const char *format, ...) {
    pthread_mutex_lock(&step_lock);
    if (!step_failed) {
        step_failed = true;
        va_list args;
        va_start(args, format);
        vsnprintf(step_detail, sizeof step_detail, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&step_lock);
}

int sum(void) {
    printf("%d passed, %d failed\n", passed, failed);
    fflush(stdout);
    return failed > 0 || passed == 0 ? 1 : 0;
}

bool want_rc(const char *what, int got, int want) {
    if (got != want) {
        fail("%s: %s (%d), want %s (%d)", what, zerror(got), got, zerror(want), want);
    }
    return got == want;
}

bool want_int(const char *what, long long got, long long want) {
    if (got != want) {
        fail("%s is %lld, want %lld", what, got, want);
    }
    return got == want;
}

bool want_str(const char *what, const char *got, const char *want) {
    bool same = got != NULL && strcmp(got, want) == 0;
    if (!same) {
        fail("%s is %s, want %s", what, got != NULL ? got : "null", want);
    }
    return same;
}

long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

// deadline_in is for pthread_cond_timedwait, which wants the wall clock.
static struct timespec deadline_in(int ms) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

enum { EVENTS_KEPT = 64 };

struct events {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int count, taken;
    int type[EVENTS_KEPT];
    char path[EVENTS_KEPT][PATH_MAX_LEN];
};

struct events *events_new(void) {
    struct events *e = calloc(1, sizeof *e);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->more, NULL);
    return e;
}

void events_free(struct events *e) {
    pthread_cond_destroy(&e->more);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

void on_event(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    (void)state;
    struct events *e = context;
    if (e == NULL || type == ZOO_SESSION_EVENT) {
        return;
    }
    pthread_mutex_lock(&e->lock);
    if (e->count < EVENTS_KEPT) {
        e->type[e->count] = type;
        snprintf(e->path[e->count], PATH_MAX_LEN, "%s", path);
        e->count++;
        pthread_cond_broadcast(&e->more);
    }
    pthread_mutex_unlock(&e->lock);
}

void want_event(struct events *e, int type, const char *path) {
    struct timespec end = deadline_in(EVENT_MS);
    pthread_mutex_lock(&e->lock);
    while (e->taken == e->count && pthread_cond_timedwait(&e->more, &e->lock, &end) == 0) {
    }
    if (e->taken == e->count) {
        fail("no event, want type %d of %s", type, path);
    } else {
        want_int("event type", e->type[e->taken], type);
        want_str("event path", e->path[e->taken], path);
        e->taken++;
    }
    pthread_mutex_unlock(&e->lock);
}

void want_no_event(struct events *e) {
    pthread_mutex_lock(&e->lock);
    if (e->taken != e->count) {
        fail("event type %d of %s, want none", e->type[e->taken], e->path[e->taken]);
    }
    pthread_mutex_unlock(&e->lock);
}

bool state_within(zhandle_t *zh, int state, int ms) {
    long long end = now_ms() + ms;
    while (zoo_state(zh) != state) {
        if (now_ms() > end) {
            return false;
        }
        usleep(5000);
    }
    return true;
}

zhandle_t *session(const char *servers, int timeout_ms, const clientid_t *id) {
    zhandle_t *zh = zookeeper_init(servers, on_event, timeout_ms, id, NULL, 0);
    if (zh == NULL) {
        fail("no handle for %s", servers);
        return NULL;
    }
    if (!state_within(zh, ZOO_CONNECTED_STATE, 10000)) {
        fail("%s: not connected, state %d", servers, zoo_state(zh));
        zookeeper_close(zh);
        return NULL;
    }
    return zh;
}

// answer is what a completion leaves for the thread that waits for it.
struct answer {
    pthread_mutex_t lock;
    pthread_cond_t here;
    bool came;
    int rc;
};

static void answer_init(struct answer *a) {
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->here, NULL);
    a->came = false;
}

static void on_answer(int rc, const void *data) {
    struct answer *a = (struct answer *)data;
    pthread_mutex_lock(&a->lock);
    a->rc = rc;
    a->came = true;
    pthread_cond_signal(&a->here);
    pthread_mutex_unlock(&a->lock);
}

static void on_string_answer(int rc, const char *value, const void *data) {
    (void)value;
    on_answer(rc, data);
}

// answer_wait has no bound of its own: the step's alarm is one.
static int answer_wait(struct answer *a, int rc) {
    if (rc != ZOK) {
        return rc;
    }
    pthread_mutex_lock(&a->lock);
    while (!a->came) {
        pthread_cond_wait(&a->here, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return a->rc;
}

int sync_path(zhandle_t *zh, const char *path) {
    struct answer a;
    answer_init(&a);
    return answer_wait(&a, zoo_async(zh, path, on_string_answer, &a));
}

int auth(zhandle_t *zh, const char *scheme, const char *cert) {
    struct answer a;
    answer_init(&a);
    return answer_wait(&a, zoo_add_auth(zh, scheme, cert, (int)strlen(cert), on_answer, &a));
}

char *join_path(char *out, const char *dir, const char *name) {
    snprintf(out, PATH_MAX_LEN, "%s/%s", dir, name);
    return out;
}

int open_create(zhandle_t *zh, const char *path, const char *data, int flags, char *out) {
    return zoo_create(zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, flags, out,
                      out != NULL ? PATH_MAX_LEN : 0);
}

void remove_tree(zhandle_t *zh, const char *path) {
    struct String_vector kids = {0};
    if (zoo_get_children(zh, path, 0, &kids) == ZOK) {
        for (int i = 0; i < kids.count; i++) {
            char kid[PATH_MAX_LEN];
            remove_tree(zh, join_path(kid, path, kids.data[i]));
        }
        deallocate_String_vector(&kids);
    }
    zoo_delete(zh, path, -1);
}
