// sessions.c: sessions whose client process died, and sessions that never were.
#include "check.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int orphan(const char *member, const char *path, int timeout_ms) {
    zhandle_t *zh = session(member, timeout_ms, NULL);
    if (zh == NULL || open_create(zh, path, "", ZOO_EPHEMERAL, NULL) != ZOK) {
        return 1;
    }
    const clientid_t *id = zoo_client_id(zh);
    printf("%llx %d ", (unsigned long long)id->client_id, zoo_recv_timeout(zh));
    for (size_t i = 0; i < sizeof id->passwd; i++) {
        printf("%02x", (unsigned char)id->passwd[i]);
    }
    printf("\n");
    fflush(stdout);
    _exit(0);
}

// make_orphan runs orphan in a child process; false if it did not work.
static bool make_orphan(const char *member, const char *path, int timeout_ms, clientid_t *id,
                        int *negotiated_ms) {
    char self[PATH_MAX] = "", command[PATH_MAX + 2 * PATH_MAX_LEN];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        fail("readlink");
        return false;
    }
    snprintf(command, sizeof command, "'%s' --orphan '%s' '%s' %d 2>&1", self, member, path, timeout_ms);
    FILE *child = popen(command, "r");
    if (child == NULL) {
        fail("popen");
        return false;
    }
    unsigned long long number;
    char hex[40] = "";
    bool read = fscanf(child, "%llx %d %32s", &number, negotiated_ms, hex) == 3;
    int status = pclose(child);
    if (!read || status != 0 || strlen(hex) != 2 * sizeof id->passwd) {
        fail("the child that opens a session ended with %d", status);
        return false;
    }
    id->client_id = (int64_t)number;
    for (size_t i = 0; i < sizeof id->passwd; i++) {
        unsigned int byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        id->passwd[i] = (char)byte;
    }
    return true;
}

// refused checks that a handle with this id ends in the expired state.
static void want_refused(const char *member, const clientid_t *id) {
    zhandle_t *zh = zookeeper_init(member, on_event, 10000, id, NULL, 0);
    if (zh == NULL) {
        fail("no handle");
        return;
    }
    if (!state_within(zh, ZOO_EXPIRED_SESSION_STATE, 10000)) {
        fail("state %d, want the session refused", zoo_state(zh));
    }
    zookeeper_close(zh);
}

// adopted: a session is taken over through another member by its id and
// password, its ephemeral with it; a wrong password does not get it.
static void adopted(char *const *members, int count, const char *base) {
    step("session-adopted");
    char path[PATH_MAX_LEN];
    clientid_t id, wrong;
    struct Stat stat;
    int negotiated;
    join_path(path, base, "adopted");
    if (make_orphan(members[0], path, 10000, &id, &negotiated)) {
        wrong = id;
        wrong.passwd[0] ^= 1;
        want_refused(members[count - 1], &wrong);
        zhandle_t *zh = session(members[count - 1], 10000, &id);
        if (zh != NULL) {
            want_int("session id", zoo_client_id(zh)->client_id, id.client_id);
            want_rc("sync", sync_path(zh, path), ZOK);
            want_rc("exists", zoo_exists(zh, path, 0, &stat), ZOK);
            want_int("owner", stat.ephemeralOwner, id.client_id);
            want_rc("set", zoo_set(zh, path, "mine", 4, 0), ZOK);
            zookeeper_close(zh);
            want_refused(members[0], &id);
        }
    }
    done();
}

// expired: the ephemeral of a silent session goes with the session, neither
// long before nor long after its timeout.
static void expired(char *const *members, int count, const char *base) {
    step("session-expires");
    char path[PATH_MAX_LEN];
    clientid_t id;
    struct Stat stat;
    int timeout_ms;
    struct events *e = events_new();
    join_path(path, base, "expires");
    zhandle_t *zh = session(members[count - 1], 10000, NULL);
    if (zh != NULL && make_orphan(members[0], path, 4000, &id, &timeout_ms)) {
        long long start = now_ms();
        want_rc("sync", sync_path(zh, path), ZOK);
        want_rc("watch", zoo_wexists(zh, path, on_event, e, &stat), ZOK);
        want_event(e, ZOO_DELETED_EVENT, path);
        if (now_ms() - start < timeout_ms - 500) {
            fail("expired after %lld ms, its timeout is %d ms", now_ms() - start, timeout_ms);
        }
        want_refused(members[0], &id);
    }
    if (zh != NULL) {
        zookeeper_close(zh);
    }
    done();
    events_free(e);
}

static void unknown(char *const *members, int count) {
    step("session-unknown");
    clientid_t id = {0x123456789abcdef, "never given out"};
    for (int i = 0; i < count; i++) {
        want_refused(members[i], &id);
    }
    done();
}

// cut breaks every connection of this process to the port of a member, under
// the client library. The suite's own long-lived session only reconnects.
static void cut(const char *member) {
    int port = atoi(strrchr(member, ':') + 1), found = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0) {
            continue;
        }
        // The port has the same place in both families.
        if ((peer.ss_family == AF_INET || peer.ss_family == AF_INET6) &&
            ntohs(((struct sockaddr_in *)&peer)->sin_port) == port) {
            shutdown(fd, SHUT_RDWR);
            found++;
        }
    }
    if (found == 0) {
        fail("no connection to %s", member);
    }
}

// reconnects: after a cut connection the session, its ephemeral and its watch
// are there again (the client sends setWatches).
static void reconnects(char *const *members, int count, const char *base) {
    step("reconnect");
    char path[PATH_MAX_LEN], data[16];
    struct Stat stat;
    struct events *e = events_new();
    zhandle_t *zh = session(members[0], 10000, NULL);
    if (zh != NULL) {
        int64_t id = zoo_client_id(zh)->client_id;
        want_rc("create", open_create(zh, join_path(path, base, "reconnect"), "", ZOO_EPHEMERAL, NULL), ZOK);
        want_rc("watch", zoo_wget(zh, path, on_event, e, data, &(int){sizeof data}, &stat), ZOK);
        cut(members[0]);
        zhandle_t *other = session(members[count - 1], 10000, NULL);
        if (other != NULL) {
            want_rc("sync", sync_path(other, path), ZOK);
            want_rc("set", zoo_set(other, path, "x", 1, 0), ZOK);
            want_event(e, ZOO_CHANGED_EVENT, path);
            zookeeper_close(other);
        }
        want_rc("exists", zoo_exists(zh, path, 0, &stat), ZOK);
        want_int("session id", zoo_client_id(zh)->client_id, id);
        want_int("owner", stat.ephemeralOwner, id);
        zookeeper_close(zh);
    }
    done();
    events_free(e);
}

// chroot: a path behind the connect string is where the session's root is.
static void chrooted(char *const *members, int count, const char *base) {
    step("chroot");
    char servers[2 * PATH_MAX_LEN] = "", path[PATH_MAX_LEN], out[PATH_MAX_LEN];
    struct Stat stat;
    for (int i = 0; i < count; i++) {
        snprintf(servers + strlen(servers), sizeof servers - strlen(servers), "%s%s", i > 0 ? "," : "",
                 members[i]);
    }
    strncat(servers, base, sizeof servers - strlen(servers) - 1);
    zhandle_t *inner = session(servers, 10000, NULL);
    zhandle_t *zh = session(members[0], 10000, NULL);
    if (inner != NULL && zh != NULL) {
        want_rc("create", open_create(inner, "/inside", "", 0, out), ZOK);
        want_str("path", out, "/inside");
        want_rc("sync", sync_path(zh, base), ZOK);
        want_rc("outside", zoo_exists(zh, join_path(path, base, "inside"), 0, &stat), ZOK);
    }
    if (inner != NULL) {
        zookeeper_close(inner);
    }
    if (zh != NULL) {
        zookeeper_close(zh);
    }
    done();
}

void tour_sessions(char *const *members, int count, const char *base) {
    adopted(members, count, base);
    expired(members, count, base);
    unknown(members, count);
    reconnects(members, count, base);
    chrooted(members, count, base);
}
