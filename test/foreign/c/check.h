// check.h: what the C suite shares: reporting, bounded steps, sessions, watches.
#ifndef CHECK_H
#define CHECK_H

#include <zookeeper/zookeeper.h>

#include <stdbool.h>
#include <stddef.h>

enum { PATH_MAX_LEN = 256, STEP_SECONDS = 15, EVENT_MS = 10000 };

// step starts the check of this name and its clock. A step that outlives
// STEP_SECONDS is reported as failed and ends the process with the sum.
void step(const char *format, ...) __attribute__((format(printf, 1, 2)));

// done ends the step that runs: it passed, unless something failed in it.
void done(void);

// fail marks the step that runs; only its first detail is printed.
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// sum prints "N passed, N failed" and returns the exit code.
int sum(void);

// want_rc and want_int fail the step if the two differ. They return whether
// they were equal, for steps that cannot go on otherwise.
bool want_rc(const char *what, int got, int want);
bool want_int(const char *what, long long got, long long want);
bool want_str(const char *what, const char *got, const char *want);

// events is where a watcher leaves what it was told.
struct events;
struct events *events_new(void);
void events_free(struct events *e);

// on_event is the watcher; its context is a struct events.
void on_event(zhandle_t *zh, int type, int state, const char *path, void *context);

// want_event waits for the next znode event and fails the step if it is not this one.
void want_event(struct events *e, int type, const char *path);

// want_no_event fails the step if an event waits.
void want_no_event(struct events *e);

// session opens one through servers, NULL and a failed step if it does not connect in
// time; id may be NULL. The caller ends it with zookeeper_close.
zhandle_t *session(const char *servers, int timeout_ms, const clientid_t *id);

// state_within waits until the handle is in this state; false if it never was.
bool state_within(zhandle_t *zh, int state, int ms);

// sync_path waits for a sync of path through zh.
int sync_path(zhandle_t *zh, const char *path);

// auth waits for the answer to an auth packet.
int auth(zhandle_t *zh, const char *scheme, const char *cert);

// now_ms reads the monotonic clock.
long long now_ms(void);

// join_path writes dir/name to out, which has PATH_MAX_LEN bytes, and returns it.
char *join_path(char *out, const char *dir, const char *name);

// remove_tree deletes path and what is below it as far as it may.
void remove_tree(zhandle_t *zh, const char *path);

// The parts of the suite, each in a file of its own.
void tour_member(const char *name, const char *member, const char *other, const char *base);
void tour_recipes(char *const *members, int count, const char *base);
void tour_sessions(char *const *members, int count, const char *base);

// orphan opens a session with an ephemeral, prints its id and password, and ends
// the process without a word to the server. It is run as a child of the suite.
int orphan(const char *member, const char *path, int timeout_ms);

// open_create is zoo_create with an open ACL and a string for data.
int open_create(zhandle_t *zh, const char *path, const char *data, int flags, char *out);

#endif
